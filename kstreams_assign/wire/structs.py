"""Records as dataclasses, for messages with many nested structs.

A class has the field names of its schema; ``compile`` turns its records into bytes. A tuple of dataclasses is an array
of structs, a mapping of strings an array of ``KeyValue``. A field that a version lacks has its default when it is read,
and is left out when it is written. Nothing here knows a particular message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from kstreams_assign.wire.compile import Columns, Record
from kstreams_assign.wire.fields import TAGGED

Value = TypeVar("Value")

_TAG = "tag"


def tagged_field(default: Callable[[], Any]) -> Any:
    """Return a dataclass field for a tagged field of the schema: it is written if it differs from its default."""
    return field(default_factory=default, metadata={_TAG: True})


def unknown_tags() -> Any:
    """Return the dataclass field ``tagged_fields``, which keeps tagged fields that the schema does not have."""
    return field(default_factory=dict)


def value_of(kind: type[Value], record: Record) -> Value:
    """Return a record as a value of the dataclass ``kind``."""
    tags: dict[Any, Any] = dict(record.get(TAGGED, {}))
    form: Any = kind
    parts = _parts(form)
    named = {
        name: part.read(source[name]) for name, part in parts.items() for source in (record, tags) if name in source
    }
    if _keeps_tags(form):
        named[TAGGED] = {tag: raw for tag, raw in tags.items() if tag not in parts}
    return kind(**named)


def record_of(value: Any) -> Record:
    """Return a dataclass as a record; it may have more fields than a version writes."""
    kind: Any = type(value)
    record: Record = {}
    tags: dict[Any, Any] = dict(value.tagged_fields) if _keeps_tags(kind) else {}
    for name, part in _parts(kind).items():
        held = getattr(value, name)
        if not part.tagged:
            record[name] = part.write(held)
        elif held != part.default():
            tags[name] = part.write(held)
    record[TAGGED] = tags
    return record


class _Part(NamedTuple):
    """How one field of a dataclass is translated. ``tagged`` fields equal to ``default()`` are not written."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    tagged: bool
    default: Any


@cache
def _parts(kind: Any) -> Mapping[str, _Part]:
    hints = get_type_hints(kind)
    return {
        part.name: _Part(*_translation(hints[part.name]), bool(part.metadata.get(_TAG)), part.default_factory)
        for part in fields(kind)
        if part.name != TAGGED
    }


@cache
def _keeps_tags(kind: Any) -> bool:
    return any(part.name == TAGGED for part in fields(kind))


def _translation(hint: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return how to read and write a field with this type hint, of which ``None`` stays ``None``."""
    options = [option for option in get_args(hint) if option is not NoneType]
    if NoneType in get_args(hint):
        read, write = _translation(options[0])
        return (
            lambda held: None if held is None else read(held),
            lambda held: None if held is None else write(held),
        )
    if get_origin(hint) is tuple:
        element: Any = options[0]
        if is_dataclass(element):
            return (lambda columns: _rows(element, columns)), (lambda values: _columns(element, values))
        return tuple, tuple
    if get_origin(hint) is Mapping:
        return _mapping, _pairs
    if isinstance(hint, type) and is_dataclass(hint):
        return (lambda record: value_of(hint, record)), record_of
    return _same, _same


def _rows(kind: Any, columns: Columns) -> tuple[Any, ...]:
    rows = zip(*columns.values(), strict=True)
    return tuple(value_of(kind, dict(zip(columns, row, strict=True))) for row in rows)


def _columns(kind: Any, values: Iterable[Any]) -> Columns:
    records = [record_of(value) for value in values]
    return {name: [record[name] for record in records] for name in (*_names(kind), TAGGED)}


@cache
def _names(kind: Any) -> Sequence[str]:
    return tuple(name for name, part in _parts(kind).items() if not part.tagged)


def _mapping(columns: Columns) -> Mapping[str, str]:
    return dict(zip(columns["key"], columns["value"], strict=True))


def _pairs(mapping: Mapping[str, str]) -> Columns:
    return {"key": list(mapping), "value": list(mapping.values()), TAGGED: [{}] * len(mapping)}


def _same(held: Any) -> Any:
    return held
