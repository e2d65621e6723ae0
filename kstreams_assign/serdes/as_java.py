"""Byte for byte what Java's serdes write (``org.apache.kafka.common.serialization``).

Where Java reads bytes that nothing writes, these refuse them: a string that is not UTF-8, another form of a UUID. What
must not live here: formats that Java's ``Serdes`` does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NoReturn
from uuid import UUID

from kstreams_assign.serdes.serde import Serde

_FLOAT, _DOUBLE = Struct(">f"), Struct(">d")
_DOUBLE_NAN = bytes.fromhex("7ff8000000000000")  # Java's doubleToLongBits has one NaN
_BOOLEANS = {b"\x00": False, b"\x01": True}
_BYTES_OF = {False: b"\x00", True: b"\x01"}


def _number(name: str, layout: Struct) -> Serde[Any]:
    return Serde(name, layout.pack, _reader(layout))


def _reader(layout: Struct) -> Callable[[bytes], Any]:
    unpack = layout.unpack

    def read(data: bytes) -> Any:
        return unpack(data)[0]

    return read


def _write_double(value: float) -> bytes:
    return _DOUBLE.pack(value) if value == value else _DOUBLE_NAN  # noqa: PLR0124  # a NaN differs from itself


def _read_boolean(data: bytes) -> bool:
    if data not in _BOOLEANS:
        raise ValueError("must be one byte, 00 or 01")
    return _BOOLEANS[data]


def _write_boolean(value: bool) -> bytes:
    if type(value) is not bool:
        raise TypeError("must be True or False")
    return _BYTES_OF[value]


def _read_uuid(data: bytes) -> UUID:
    text = data.decode()
    value = UUID(text)
    if str(value) != text.lower():
        raise ValueError("must have the form 123e4567-e89b-12d3-a456-426614174000")
    return value


def _write_uuid(value: UUID) -> bytes:
    if not isinstance(value, UUID):
        raise TypeError("must be a UUID")
    return str(value).encode()


def _same(data: bytes) -> bytes:
    return data


def _refuse_void(_value: object) -> NoReturn:
    raise ValueError("must be None")


STRING: Serde[str] = Serde("a UTF-8 string", str.encode, bytes.decode)
SHORT: Serde[int] = _number("a Java Short (2 bytes)", Struct(">h"))
INTEGER: Serde[int] = _number("a Java Integer (4 bytes)", Struct(">i"))
LONG: Serde[int] = _number("a Java Long (8 bytes)", Struct(">q"))
FLOAT: Serde[float] = _number("a Java Float (4 bytes)", _FLOAT)
DOUBLE: Serde[float] = Serde("a Java Double (8 bytes)", _write_double, _reader(_DOUBLE))
BOOLEAN: Serde[bool] = Serde("a Java Boolean (1 byte)", _write_boolean, _read_boolean)
UUID_TEXT: Serde[UUID] = Serde("a UUID as text", _write_uuid, _read_uuid)
BYTES: Serde[bytes] = Serde("bytes", _same, _same)
VOID: Serde[None] = Serde("nothing (Void)", _refuse_void, _refuse_void)
