"""The settings: of ``Config``, and of the topology in a worker's file."""

from __future__ import annotations

from extension.tables import code, markdown, table
from kstreams_assign.reference import Setting, settings
from kstreams_assign.sidecar.settings import GLOBAL_TABLE_KEYS, KEYS, REPARTITION_KEYS, STORE_KEYS, TOPOLOGY_KEYS


def settings_part() -> str:
    """Return a table of all settings, and a section for each."""
    index = table(
        ("Key", "Default", "Allowed"),
        [(f"[`{each.key}`](#{each.key})", code(each.default) or "not set", each.allowed) for each in settings()],
    )
    return "\n".join([index, "## Every setting\n", *map(_section, settings())])


def _section(setting: Setting) -> str:
    facts = [
        ("Default", code(setting.default) or "not set"),
        ("Allowed", setting.allowed),
        ("Unit", setting.unit),
        ("Kafka", code(setting.kafka)),
    ]
    lines = [f"- {name}: {value}" for name, value in facts if value]
    # The anchor is the key: GitHub's rule for headings would keep it, too.
    return "\n".join([f"### `{setting.key}`\n", f"{markdown(setting.description)}\n", *lines, ""])


def topology_part() -> str:
    """Return the keys of the tables that describe a topology."""
    tables = (
        ("`[topology]`", TOPOLOGY_KEYS),
        ("`[[topology.subtopology]]`", KEYS),
        ("A table in `stores`", STORE_KEYS),
        ("A table in `repartition_sources`", REPARTITION_KEYS),
        ("`[[topology.global_table]]`", GLOBAL_TABLE_KEYS),
    )
    return "\n".join(
        f"### {title}\n\n"
        + table(("Key", "Value", "Meaning"), [(code(name), key.allowed, key.description) for name, key in keys.items()])
        for title, keys in tables
    )
