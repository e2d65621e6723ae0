"""Events by their types: whether a reported one fits, and a sample of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kstreams_assign.events import EVENTS, Event


def refuse_wrong_types(event: Event) -> None:
    """Fail for a value that is no event, and for a field whose value is of another type than described."""
    assert type(event) in EVENTS, event
    assert _differences(event.name, event, type(event)) == []


def _differences(where: str, value: object, kind: Any) -> list[str]:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(value, kind):
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        return [text for name in names for text in _differences(f"{where}.{name}", getattr(value, name), hints[name])]
    if origin is UnionType:
        return min((_differences(where, value, each) for each in arguments), key=len)
    if origin is tuple and isinstance(value, tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        pairs = enumerate(zip(value, kinds, strict=True))
        return [text for n, (each, part) in pairs for text in _differences(f"{where}[{n}]", each, part)]
    if origin is Mapping and isinstance(value, Mapping):
        return [text for key, each in value.items() for text in _differences(f"{where}.{key}", each, arguments[1])]
    plain = (int, float) if kind is float else origin or kind
    right = isinstance(value, plain) and not (isinstance(value, bool) and kind is not bool)
    return [] if right or (kind is NoneType and value is None) else [f"{where} = {value!r}: not {kind}"]


def sample(kind: Any) -> Any:
    """Return a value of an event's type, or of a field's."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name]) for field in fields(kind)})
    if origin is UnionType:
        return sample(arguments[0])
    if origin is tuple:
        return tuple(sample(each) for each in arguments if each is not ...)
    if origin is Mapping:
        return {sample(arguments[0]): sample(arguments[1])}
    return {str: "text", int: 1, float: 1.0, bool: True}[kind]
