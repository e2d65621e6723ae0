"""The metadata of a committed offset in Kafka Streams: partition time, and processor metadata.

::

    base64( version (1 byte, 2) | partition time (8 bytes, big endian, -1: unknown) | processor metadata (the rest) )

Processor metadata is a map of names to numbers, in any order::

    number of entries (4 bytes) | for each: length of the name (4 bytes) | name (UTF-8) | value (8 bytes)

Source: Kafka's ``TopicPartitionMetadata`` and ``ProcessorMetadata``; version 1 (before 3.5) has no processor metadata.
Its entries of the DSL's windowed aggregations are kept unchanged, so that a task does not lose them while a Python
member runs it. The meaning of partition time, and of an entry, is not defined here.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

_VERSION = 2
_WITH_REST = frozenset({_VERSION})
_VERSIONS = frozenset({1, _VERSION})
_HEAD = struct.Struct(">Bq")
_UNKNOWN = -1
_COUNT = struct.Struct(">i")
_VALUE = struct.Struct(">q")


class OffsetMetadata(NamedTuple):
    """Newest timestamp of the records before the offset, in milliseconds (None: unknown), and Java's own bytes."""

    partition_time_ms: int | None = None
    processor: bytes = b""


def read_offset_metadata(text: str) -> OffsetMetadata:
    """Decode a commit's metadata. Text of other programs or later versions yields an empty value, as in Java."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:  # not base64
        return OffsetMetadata()
    if len(data) < _HEAD.size or data[0] not in _VERSIONS:
        return OffsetMetadata()
    version, time_ms = _HEAD.unpack_from(data)
    rest = data[_HEAD.size :] if version in _WITH_REST else b""
    return OffsetMetadata(None if time_ms == _UNKNOWN else time_ms, rest)


def write_offset_metadata(metadata: OffsetMetadata) -> str:
    """Encode the metadata as Java 3.5 and later do."""
    time_ms = metadata.partition_time_ms
    head = _HEAD.pack(_VERSION, _UNKNOWN if time_ms is None else time_ms)
    return b64encode(head + metadata.processor).decode("ascii")


def read_processor_metadata(data: bytes) -> dict[str, int]:
    """Decode processor metadata. Bytes that Java would not accept yield an empty map, as in Java."""
    if not data:
        return {}
    entries: dict[str, int] = {}
    try:
        (count,) = _COUNT.unpack_from(data)
        at = _COUNT.size
        for _ in range(count):
            (length,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            if length < 0 or length > len(data) - at:
                return {}
            name = data[at : at + length].decode(errors="replace")
            (entries[name],) = _VALUE.unpack_from(data, at + length)
            at += length + _VALUE.size
    except struct.error:
        return {}
    return entries


def write_processor_metadata(entries: Mapping[str, int]) -> bytes:
    """Encode processor metadata; no entries are no bytes."""
    if not entries:
        return b""
    encoded = ((name.encode(), value) for name, value in entries.items())
    return _COUNT.pack(len(entries)) + b"".join(
        _COUNT.pack(len(name)) + name + _VALUE.pack(value) for name, value in encoded
    )
