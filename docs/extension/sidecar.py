"""The sidecar's messages, from ``protocol/sidecar.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extension.tables import code, table
from kstreams_assign.sidecar.messages import PROTOCOL


def messages_part() -> str:
    """Return the rules of all messages as a list, and a table of the numbers that they name."""
    rules = "".join(f"- {rule}\n" for rule in PROTOCOL["about"])
    numbers = [(code(name), f"{value:,}") for name, value in PROTOCOL.items() if isinstance(value, int)]
    return f"{rules}\n{table(('Name', 'Value'), numbers)}"


def operations_part() -> str:
    """Return a section for each operation."""
    return "\n".join(_operation(name, about) for name, about in PROTOCOL["ops"].items())


def _operation(operation: str, about: Mapping[str, Any]) -> str:
    rows = [(code(name), _type(field), _presence(field)) for name, field in about["fields"].items()]
    fields = table(("Field", "Type", "Default"), rows) if rows else "It has no fields.\n"
    return f"### `{operation}`\n\n{about['about']}\n\n{fields}\nReply (`ok`): `{about['ok']}`\n"


def _type(field: Mapping[str, Any]) -> str:
    bounds = f", {field['least']:,} to {field['most']:,}" if "least" in field else ""
    return f"[{field['type']}](#types){bounds}"


def _presence(field: Mapping[str, Any]) -> str:
    if "default" in field:
        return code(str(field["default"]).lower())
    return "optional" if field.get("optional") else "required"


def events_part() -> str:
    """Return a table of the events that the worker pushes."""
    rows = []
    for name, text in PROTOCOL["events"].items():
        fields, _, meaning = text.partition("}: ")
        rows.append((code(name), code(fields + "}"), meaning[:1].upper() + meaning[1:]))
    return table(("Event", "Fields", "Meaning"), rows)


def errors_part() -> str:
    """Return a table of the error codes, with what an application does about each."""
    rows = [(code(name), error["about"], error["then"], error["do"]) for name, error in PROTOCOL["errors"].items()]
    return table(("Code", "Meaning", "Then", "What to do"), rows)


def types_part() -> str:
    """Return a table of the types of fields."""
    return table(("Type", "In msgpack"), [(code(name), text) for name, text in PROTOCOL["types"].items()])
