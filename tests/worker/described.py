"""Compare a reported event with its type in ``kstreams_assign.events``: field for field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from kstreams_assign import events


def event_types() -> dict[str, type]:
    """Return the type of each event by name."""
    return {get_args(get_type_hints(kind)["event"])[0]: kind for kind in get_args(events.Event)}


def refuse_undescribed(reported: Iterable[Mapping[str, Any]]) -> None:
    """Fail for an event without a type, and for a field that differs from the type."""
    types = event_types()
    for event in reported:
        kind = types.get(event["event"])
        assert kind is not None, f"kstreams_assign.events describes no event {event['event']!r}"
        assert _differences(event["event"], event, kind) == []


def _differences(where: str, value: object, kind: Any) -> list[str]:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _field_differences(where, value, get_type_hints(kind))
    if origin is UnionType:
        return min((_differences(where, value, each) for each in arguments), key=len)
    if origin is Literal:
        return [] if value in arguments else [f"{where} = {value!r}: not one of {arguments}"]
    if origin is list and isinstance(value, list):
        return [text for n, each in enumerate(value) for text in _differences(f"{where}[{n}]", each, arguments[0])]
    if origin is dict and isinstance(value, dict):
        return [text for key, each in value.items() for text in _differences(f"{where}.{key}", each, arguments[1])]
    plain = (int, float) if kind is float else origin or kind
    right = isinstance(value, plain) and not (isinstance(value, bool) and kind is not bool)
    return [] if right or (kind is NoneType and value is None) else [f"{where} = {value!r}: not {kind}"]


def _field_differences(where: str, value: object, fields: Mapping[str, Any]) -> list[str]:
    if not isinstance(value, dict) or value.keys() != fields.keys():
        return [f"{where}: {sorted(value) if isinstance(value, dict) else value!r}, described are {sorted(fields)}"]
    return [text for name, kind in fields.items() for text in _differences(f"{where}.{name}", value[name], kind)]
