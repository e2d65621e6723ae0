"""The fields of Kafka's flexible versions (KIP-482): varints, and strings and bytes with varint lengths.

Reading and writing of one such field; no schemas or messages. A compact length is an unsigned varint of the length
plus one, so that zero can mean null.
"""

from __future__ import annotations

import struct
from typing import Any

from kstreams_assign.wire.primitives import NULLABLES, PRIMITIVES, Primitive, Source, utf8_bytes, utf8_text

UINT8 = struct.Struct(">B")
VARINT_BITS_MAX = 31
STRING_SIZE_MAX = 0x7FFF
"""Kafka's own limit: its other strings have an int16 length."""


def read_varint(source: Source, field: str) -> int:
    """Read an unsigned varint: seven bits a byte, the lowest first. Refuse more than an int32 holds."""
    value = shift = 0
    more = True
    while more:
        byte = source.number(UINT8, field)
        value |= (byte & 0x7F) << shift
        shift += 7
        more = byte > 0x7F
        if value >> VARINT_BITS_MAX or shift > VARINT_BITS_MAX + 4:
            raise source.malformed(field, "a varint of more than 31 bits")
    return value


def write_varint(out: bytearray, value: int) -> None:
    if value >> VARINT_BITS_MAX:
        raise struct.error(f"{value} does not fit a varint of 31 bits")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_compact_length(source: Source, unit: int, field: str) -> int | None:
    """Read a count of items of at least ``unit`` bytes each, or ``None``; refuse more than can follow."""
    marked = read_varint(source, field)
    if (marked - 1) * unit > source.left:
        raise source.malformed(field, f"a length of {marked - 1} is impossible, {source.left} bytes follow")
    return marked - 1 if marked else None


def not_null(source: Source, value: Any, field: str) -> Any:
    """Return ``value``; refuse the bytes if it is ``None``."""
    if value is None:
        raise source.malformed(field, "null where a value is required")
    return value


def _read_bytes(source: Source, field: str) -> bytes | None:
    size = read_compact_length(source, 1, field)
    return None if size is None else source.take(size, field)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    write_varint(out, 0 if value is None else len(value) + 1)
    out += value or b""


def _read_string(source: Source, field: str) -> str | None:
    raw = _read_bytes(source, field)
    if raw is not None and len(raw) > STRING_SIZE_MAX:
        raise source.malformed(field, f"a string of {len(raw)} bytes")
    return None if raw is None else utf8_text(raw)


def _write_string(out: bytearray, value: str | None) -> None:
    raw = None if value is None else utf8_bytes(value)
    if raw is not None and len(raw) > STRING_SIZE_MAX:
        raise struct.error(f"a string takes at most {STRING_SIZE_MAX} bytes, not {len(raw)}")
    _write_bytes(out, raw)


def _required(nullable: Primitive) -> Primitive:
    def read(source: Source, field: str) -> Any:
        return not_null(source, nullable.read(source, field), field)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            raise struct.error("null where a value is required")
        nullable.write(out, value)

    return Primitive(read, write, nullable.size_min)


_STRING, _BYTES = Primitive(_read_string, _write_string, 1), Primitive(_read_bytes, _write_bytes, 1)

COMPACT_PRIMITIVES = PRIMITIVES | {"string": _required(_STRING), "bytes": _required(_BYTES)}
"""Schema type -> field, in a flexible version."""

COMPACT_NULLABLES = NULLABLES | {"string": _STRING, "bytes": _BYTES}
