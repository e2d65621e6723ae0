"""What stands in the way of a group that is to change its protocol: read from the brokers, and printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupDescriber, describes_groups
from kstreams_assign.config import Config, read_toml_file
from kstreams_assign.errors import BrokerError, ConfigError
from kstreams_assign.insight.record_text import printable
from kstreams_assign.observe.migration import Migration, MigrationFacts, check_migration
from kstreams_assign.topology.internal import internal_topics_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants to know. ``config``: a file of settings of this package, if there is one."""

    group: str
    to: str
    bootstrap_servers: str
    config: Path | None
    client: Mapping[str, str]
    timeout_s: float


def look(asked: Asked) -> tuple[MigrationFacts, Migration]:
    """Return the facts and what follows. Raises ``BrokerUnavailable``, ``BrokerError``, ``ConfigError``."""
    config, patterns = (None, ()) if asked.config is None else _settings(asked.config)
    admin = ClusterAdmin(asked.bootstrap_servers, asked.client)
    admin.reach(asked.timeout_s)
    with describes_groups(asked.bootstrap_servers, asked.client, asked.timeout_s) as describer:
        groups = describer.types()
        kind = groups.get(asked.group)
        facts = MigrationFacts(
            asked.group,
            asked.to,
            kind,
            _members(describer, asked.group, kind),
            0 if kind is None else len(describer.committed_offsets(asked.group)),
            internal_topics_of(asked.group, admin.topics(asked.timeout_s), groups),
            _group_settings(describer, asked.group),
            config,
            patterns,
            describer.heartbeat_version(),
            kind in ("consumer", "share") and describer.has_members(asked.group),
        )
    return facts, check_migration(facts)


def _settings(path: Path) -> tuple[Config, Sequence[str]]:
    """Return settings and source patterns of a sidecar's file, or of settings alone. Raises ``ConfigError``."""
    content = read_toml_file(path)
    topology = content.pop("topology", {})
    tables = topology.get("subtopology", []) if isinstance(topology, dict) else None
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path.absolute()}: topology: write a [[topology.subtopology]] table for each subtopology")
    patterns = [table["sources_pattern"] for table in tables if "sources_pattern" in table]
    return Config.from_mapping(content), patterns


def _members(describer: GroupDescriber, group: str, kind: str | None) -> Sequence[str]:
    if kind == "streams":
        described = describer.describe_streams(group)
        members: Iterable[Any] = () if described is None else described.members
    elif kind in ("classic", None):  # brokers do not list a group that this client may not describe: this raises
        classic = describer.describe(group)
        members = () if classic is None else classic.members
    else:
        return ()
    return sorted(f"{member.client_id or member.member_id} ({member.client_host})" for member in members)


def _group_settings(describer: GroupDescriber, group: str) -> Mapping[str, str]:
    """Return the brokers' settings of the group; none where they may not be read."""
    try:
        return describer.group_settings(group)
    except BrokerError:
        return {}


def as_lines(facts: MigrationFacts, migration: Migration) -> list[str]:
    """Return the answer as text."""
    head = f"{facts.group}: {facts.kind or 'no group'}, to the {facts.to} protocol"
    parts = {
        "stands in the way": migration.way or ("nothing",),
        "before the first member starts": migration.before,
        "kept": migration.kept,
    }
    return [
        head,
        *(
            line
            for title, texts in parts.items()
            for line in (f"{title}:", *(f" - {printable(text)}" for text in texts))
        ),
    ]


def as_json(facts: MigrationFacts, migration: Migration) -> dict[str, Any]:
    """Return the answer as JSON."""
    return {
        "group": facts.group,
        "protocol": facts.kind,
        "to": facts.to,
        "members": list(facts.members),
        "committed_partitions": facts.committed,
        "internal_topics": list(facts.internal_topics),
        **{name: list(texts) for name, texts in asdict(migration).items()},
    }
