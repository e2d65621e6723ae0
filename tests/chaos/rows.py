"""The bytes of the chaos application: inputs, a key's entry in the store, rows of the output topic.

Pure; all that the application and the checkers share. An entry lists every id that was applied to its key, so that
lost, repeated and overwritten ids can be named.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

SIGNATURE_BYTES = 8
"""A process's name, a dot, and its count among the processes of that name."""

_ID = struct.Struct(">I")
_ENTRY = struct.Struct(f">{SIGNATURE_BYTES}sIIQ")
_ROW = struct.Struct(f">IIQI{SIGNATURE_BYTES}s")
_MIX = 0x9E3779B97F4A7C15


class Unsound(ValueError):
    """An entry contradicts its own count or digest: the bytes read are not those written."""


class Entry(NamedTuple):
    """A key's value in the store and in the changelog. ``generation``: of the group, as the writer knew it."""

    writer: str
    generation: int
    ids: tuple[int, ...]


class Row(NamedTuple):
    """A processed input: its id, its origin, its writer, and the group's generation."""

    id: int
    partition: int
    offset: int
    generation: int
    writer: str


def digest(ids: Iterable[int]) -> int:
    """Return the digest of a bag of ids, in any order."""
    return sum((number + 1) * _MIX for number in ids) % 2**64


def write_id(number: int) -> bytes:
    return _ID.pack(number)


def read_id(value: bytes) -> int:
    (number,) = _ID.unpack(value)
    return int(number)


def write_entry(entry: Entry) -> bytes:
    head = _ENTRY.pack(entry.writer.encode(), entry.generation, len(entry.ids), digest(entry.ids))
    return head + struct.pack(f">{len(entry.ids)}I", *entry.ids)


def read_entry(value: bytes) -> Entry:
    """Raises ``Unsound``."""
    if len(value) < _ENTRY.size or (len(value) - _ENTRY.size) % _ID.size:
        raise Unsound(f"{len(value)} bytes are not an entry")
    writer, generation, count, sealed = _ENTRY.unpack_from(value)
    ids = struct.unpack(f">{(len(value) - _ENTRY.size) // _ID.size}I", value[_ENTRY.size :])
    if count != len(ids) or sealed != digest(ids):
        raise Unsound(f"{len(ids)} ids with another count or digest: {value.hex()}")
    return Entry(writer.rstrip(b"\0").decode(), generation, ids)


def write_row(row: Row) -> bytes:
    return _ROW.pack(row.id, row.partition, row.offset, row.generation, row.writer.encode())


def read_row(value: bytes) -> Row:
    number, partition, offset, generation, writer = _ROW.unpack(value)
    return Row(number, partition, offset, generation, writer.rstrip(b"\0").decode())
