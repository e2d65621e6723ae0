"""The metadata of a committed offset in Kafka Streams: partition time, and processor metadata.

::

    base64( version (1 byte, 2) | partition time (8 bytes, big endian, -1: unknown) | processor metadata (the rest) )

Source: Kafka's ``TopicPartitionMetadata``; version 1 (before 3.5) has no processor metadata. It belongs to the DSL's
windowed aggregations and is kept unchanged, so that a task does not lose it while a Python member runs it. The meaning
of partition time is not defined here.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from typing import NamedTuple

_VERSION = 2
_WITH_REST = frozenset({_VERSION})
_VERSIONS = frozenset({1, _VERSION})
_HEAD = struct.Struct(">Bq")
_UNKNOWN = -1


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
