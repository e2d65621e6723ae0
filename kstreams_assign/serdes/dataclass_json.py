"""Dataclasses as JSON objects: fields by name, each with the type that the class declares.

A class is compiled once to functions that read and write its fields. A value with other types than declared is read
back before it counts as written, as what is written must be readable. Nothing but fields is written: an object may have
other attributes, such as what a ``cached_property`` remembers, and equal keys must be equal bytes. A member that the
class does not have is left out, so a new field can be written before all programs know it; a missing member takes the
field's default. What must not live here: JSON itself (``text_and_packed``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, InitVar, fields, is_dataclass, make_dataclass
from functools import cache
from math import isfinite
from types import MemberDescriptorType, NoneType, UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from kstreams_assign.errors import ConfigError
from kstreams_assign.serdes.serde import Serde
from kstreams_assign.serdes.text_and_packed import write_json

T = TypeVar("T")
Read = Callable[[Any], Any]
Write = Callable[[Any], Any]
_ALLOWED = (
    "JSON has no such type; use str, int, float, bool, list, dict with str as keys, another dataclass, or one of these "
    "or None; for other types make a Serde of your own"
)


_Member = tuple[str, frozenset[type], Read, bool]
"""A field that is read: name, types whose values are taken as they are, what reads others, whether it is required."""

_WrittenMember = tuple[str, frozenset[type], Write]
"""A field that is written, likewise. Plain tuples, as a loop over named ones takes twice as long."""


class _OtherType(Exception):
    """A value is not of the type that its class declares."""


def json_of(kind: type[T]) -> Serde[T]:
    """Return the serde of a dataclass. Raises ``ConfigError`` for another class, or a field that JSON cannot hold."""
    if not isinstance(kind, type) or not is_dataclass(kind):
        raise ConfigError(f"{kind!r} is not a dataclass: put @dataclass above the class, or use Serdes.json")
    serde: Serde[T] = _compiled(kind)
    return serde


@cache
def _compiled(kind: type[Any]) -> Serde[Any]:
    read = _class_reader(kind, {})
    write, write_any_type = _class_writer(kind, _refuse, {}), _class_writer(kind, _as_it_is, {})

    def serialize(value: Any) -> bytes:
        if type(value) is not kind:
            raise TypeError(f"must be {kind.__name__}")
        try:
            return write_json(write(value))
        except _OtherType:
            data = write_json(write_any_type(value))
        read(orjson.loads(data))
        return data

    def deserialize(data: bytes) -> Any:
        return read(orjson.loads(data))

    return Serde(f"JSON of {kind.__name__}", serialize, deserialize)


def _class_reader(kind: type, readers: dict[type, Read]) -> Read:
    """Return what makes an object of a JSON value; ``readers`` has those of the classes that it is part of."""
    hints = _types(kind)
    _refuse_unknown_arguments(kind, hints)
    members: list[_Member] = []

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"must be an object, for {kind.__name__}")
        given = {}
        for name, kinds, read_member, required in members:
            if name in value:
                member = value[name]
                try:
                    given[name] = member if type(member) in kinds else read_member(member)
                except (TypeError, ValueError) as cause:
                    raise type(cause)(f"{name}: {cause}") from None
            elif required:
                raise ValueError(f"{name}: missing")
        return kind(**given)

    readers[kind] = read  # before its fields: one of them may be of this class
    members += [_member(kind, each, hints[each.name], readers) for each in fields(kind)]
    return read


def _types(kind: type) -> Mapping[str, Any]:
    """Return the types that a class declares, by field. Raises ``ConfigError`` for one whose name leads nowhere."""
    try:
        return get_type_hints(kind)
    except (AttributeError, NameError, SyntaxError, TypeError) as cause:
        raise ConfigError(
            f"{kind.__name__}: the type of a field cannot be found: {cause}; import or define each type at the top of "
            f"the module {kind.__module__}, not below TYPE_CHECKING and not in a function"
        ) from cause


def _refuse_unknown_arguments(kind: type, hints: Mapping[str, Any]) -> None:
    for name, hint in hints.items():
        if (hint is InitVar or isinstance(hint, InitVar)) and not hasattr(kind, name):
            raise ConfigError(
                f"{kind.__name__}.{name}: an InitVar without a default is in no JSON, so no object can be made of it; "
                "give it a default, or make it a field"
            )


def _member(kind: type, field: Field[Any], hint: Any, readers: dict[type, Read]) -> _Member:
    if not field.init or field.name.startswith("_"):
        raise ConfigError(
            f"{kind.__name__}.{field.name}: must be an argument of the class, without an underscore in front"
        )
    required = field.default is MISSING and field.default_factory is MISSING
    return field.name, _kinds(hint), _reader(hint, f"{kind.__name__}.{field.name}", readers), required


def _kinds(hint: Any) -> frozenset[type]:
    """Return the types of the JSON values that are values of this type as they are; none where parts are to be read."""
    arguments = get_args(hint)
    if get_origin(hint) in {Union, UnionType}:
        return frozenset().union(*map(_kinds, arguments))
    return frozenset({hint if arguments else get_origin(hint) or hint}) & _AS_THEY_ARE


def _reader(hint: Any, place: str, readers: dict[type, Read]) -> Read:
    """Return what reads a JSON value as a type. Raises ``ConfigError`` for a type that JSON does not have."""
    origin, arguments = get_origin(hint), get_args(hint)
    plain = hint if arguments else origin or hint  # list for a bare typing.List
    if plain in _PLAIN:
        return _PLAIN[plain]
    if is_dataclass(hint) and isinstance(hint, type):
        return readers.get(hint) or _class_reader(hint, readers)
    if origin is list:
        return _list_of(_reader(arguments[0], place, readers))
    if origin is dict and len(arguments) == 2 and arguments[0] is str:
        return _dict_of(_reader(arguments[1], place, readers))
    if origin in {Union, UnionType} and len(arguments) == 2 and NoneType in arguments:
        (other,) = (each for each in arguments if each is not NoneType)
        return _optional(_reader(other, place, readers))
    raise ConfigError(f"{place} is {getattr(hint, '__name__', hint)}: {_ALLOWED}")


def _class_writer(kind: type, other: Write, writers: dict[type, Write]) -> Write:
    """Return what makes a copy of an object, of its fields alone; ``writers`` has those of the classes in it.

    ``other`` is given each value of another type than declared. An object and not a dict, as JSON keeps the order of
    fields and sorts the members of dicts.
    """
    hints = _types(kind)
    members: list[_WrittenMember] = []
    has_only_slots = kind.__dictoffset__ == 0
    names = [each.name for each in fields(kind)]
    is_mixed = not has_only_slots and any(_is_slot(kind, name) for name in names)
    is_plain = not is_mixed and all(_is_plain(hints[name]) for name in names)
    written_kind = make_dataclass(kind.__name__, names, slots=True) if is_mixed else kind  # JSON would miss the slots

    def write(value: Any) -> Any:
        if type(value) is not kind:
            return other(value)
        if is_plain and (has_only_slots or len(value.__dict__) == len(members)):
            for name, kinds, write_member in members:
                if type(member := getattr(value, name)) not in kinds:
                    write_member(member)
            return value
        copy: Any = object.__new__(written_kind)
        for name, kinds, write_member in members:
            if type(member := getattr(value, name)) not in kinds:
                try:
                    member = write_member(member)
                except ValueError as cause:
                    raise ValueError(f"{name}: {cause}") from None
            object.__setattr__(copy, name, member)  # frozen, perhaps
        return copy

    writers[kind] = write
    members += [(name, _kinds(hints[name]) - _CHANGED, _writer(hints[name], other, writers)) for name in names]
    return write


def _is_slot(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), MemberDescriptorType)


def _is_plain(hint: Any) -> bool:
    """Return whether values of this type are written as they are, with all their parts."""
    return hint is not float and not is_dataclass(hint) and all(map(_is_plain, get_args(hint)))


def _writer(hint: Any, other: Write, writers: dict[type, Write]) -> Write:
    """Return what makes a JSON value of a value of this type that is not one of its ``_kinds``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in {Any, object}:
        return _as_it_is
    is_optional = origin in {Union, UnionType}
    present = next(each for each in arguments if each is not NoneType) if is_optional else hint
    if present is float:
        write_float = _write_optional_float if is_optional else _write_float
        return lambda value: write_float(value) if type(value) in _NUMBERS else other(value)
    if is_optional:
        return _writer(present, other, writers)
    if is_dataclass(hint) and isinstance(hint, type):
        return writers.get(hint) or _class_writer(hint, other, writers)
    if not arguments:
        return other
    kinds, write = _kinds(arguments[-1]) - _CHANGED, _writer(arguments[-1], other, writers)
    write_parts = _write_list if origin is list else _write_dict
    return lambda value: write_parts(value, kinds, write) if type(value) is origin else other(value)


def _refuse(_value: Any) -> NoReturn:
    raise _OtherType


def _as_it_is(value: Any) -> Any:
    return value


_NUMBERS = frozenset({int, float})
_CHANGED = frozenset({float})


def _write_float(value: float) -> float:
    number = value + 0.0  # 1 is equal to 1.0, and -0.0 to 0.0
    if not isfinite(number):
        raise ValueError(f"{number}: JSON has no such number")
    return number


def _write_optional_float(value: float) -> float | None:
    return _write_float(value) if isfinite(value) else None


def _write_list(value: list[Any], kinds: frozenset[type], write: Write) -> list[Any]:
    if kinds.issuperset(map(type, value)):
        return value
    return [each if type(each) in kinds else write(each) for each in value]


def _write_dict(value: dict[str, Any], kinds: frozenset[type], write: Write) -> dict[str, Any]:
    if kinds.issuperset(map(type, value.values())):
        return value
    return {name: each if type(each) in kinds else write(each) for name, each in value.items()}


def _read_float(value: Any) -> float:
    if type(value) not in {float, int}:
        raise TypeError(f"must be a number, not {value!r:.60}")
    return float(value)


def _exactly(kind: type) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"must be {kind.__name__}, not {value!r:.60}")
        return value

    return read


def _list_of(read_item: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise TypeError(f"must be list, not {value!r:.60}")
        return list(map(read_item, value))

    return read


def _dict_of(read_item: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"must be dict, not {value!r:.60}")
        return {name: read_item(item) for name, item in value.items()}

    return read


def _optional(read_other: Read) -> Read:
    def read(value: Any) -> Any:
        return None if value is None else read_other(value)

    return read


_EXACT: frozenset[type] = frozenset({str, int, bool, NoneType, list, dict})
_AS_THEY_ARE = _EXACT | {float}
_PLAIN: Mapping[Any, Read] = {
    **{kind: _exactly(kind) for kind in _EXACT},
    float: _read_float,
    Any: _as_it_is,
    object: _as_it_is,
}
