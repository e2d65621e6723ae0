"""``Serdes``: all serdes of this package by name, and the short forms that stand for some of them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from kstreams_assign.errors import ConfigError
from kstreams_assign.serdes import as_java
from kstreams_assign.serdes.dataclass_json import json_of
from kstreams_assign.serdes.serde import Serde
from kstreams_assign.serdes.text_and_packed import JSON, MSGPACK

T = TypeVar("T")


class Serdes:
    """Name the serdes of this package, those of Java as in Java's ``Serdes``.

    ``Serdes.long.serialize(5)`` returns bytes, and ``Serdes.json.deserialize(record.value)`` a value. The serdes of
    Java write and read the same bytes as Java's.
    """

    string: ClassVar[Serde[str]] = as_java.STRING
    """UTF-8 (Java: ``Serdes.String()``). Bytes that are not UTF-8 are refused; Java replaces them."""
    short: ClassVar[Serde[int]] = as_java.SHORT
    """2 bytes, big endian, signed."""
    integer: ClassVar[Serde[int]] = as_java.INTEGER
    """4 bytes, big endian, signed."""
    long: ClassVar[Serde[int]] = as_java.LONG
    """8 bytes, big endian, signed."""
    float: ClassVar[Serde[builtins.float]] = as_java.FLOAT
    """4 bytes (IEEE 754 single); Python's floats have 8, so digits are lost."""
    double: ClassVar[Serde[builtins.float]] = as_java.DOUBLE
    """8 bytes (IEEE 754 double), which Python's floats are."""
    boolean: ClassVar[Serde[bool]] = as_java.BOOLEAN
    """1 byte, 00 or 01."""
    uuid: ClassVar[Serde[UUID]] = as_java.UUID_TEXT
    """36 characters, in lower case."""
    bytes: ClassVar[Serde[builtins.bytes]] = as_java.BYTES
    """The bytes themselves (Java: ``Serdes.ByteArray()``, ``Bytes()``)."""
    void: ClassVar[Serde[None]] = as_java.VOID
    """Nothing: the key or value must be None."""
    json: ClassVar[Serde[Any]] = JSON
    """Compact JSON with sorted members, so equal values are equal bytes."""
    msgpack: ClassVar[Serde[Any]] = MSGPACK
    """msgpack. Maps keep their order, so do not use them in keys."""

    @staticmethod
    def dataclass(kind: type[T]) -> Serde[T]:
        """Return the serde of a dataclass: a JSON object with its fields, whose types are checked.

        Fields are str, int, float, bool, list, dict with str as keys, dataclasses, and each of these or None.
        Unknown members are left out, and missing ones take their defaults. Raises ``ConfigError`` for a class that is
        no dataclass, or that has a field of another type.
        """
        return json_of(kind)


_BY_TYPE: Mapping[Any, Serde[Any]] = {
    str: as_java.STRING,
    int: as_java.LONG,
    float: as_java.DOUBLE,
    bytes: as_java.BYTES,
    bool: as_java.BOOLEAN,
    UUID: as_java.UUID_TEXT,
}


def serde_of(field: str, given: type[T] | Serde[T] | None) -> Serde[T]:
    """Return the serde that a Python type stands for, or the serde itself; ``field`` is the name of the argument.

    Raises ``ConfigError`` for anything else.
    """
    if isinstance(given, Serde):
        return given
    if isinstance(given, type):
        if given in _BY_TYPE:
            return _BY_TYPE[given]
        if is_dataclass(given):
            return json_of(given)
    raise ConfigError(
        f"{field} = {given!r}: must be str, int, float, bytes, bool, UUID, a dataclass, or a serde such as Serdes.json"
    )
