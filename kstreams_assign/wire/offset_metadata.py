"""What Kafka Streams keeps beside a committed offset: partition time, and what processors left there.

::

    base64( version (1 byte, 2) | partition time (8 bytes, big endian, -1: unknown) | processor metadata (the rest, may be empty) )

Source: Kafka's ``TopicPartitionMetadata``; version 1 (before 3.5) lacks the rest. The rest is kept as it came: it is of the DSL's
windowed aggregations, and a task that passes through our hands must not lose it. What must not be here: what a partition time is.
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
    """Newest timestamp of the records before the offset, in milliseconds (None: not known), and Java's own bytes."""

    partition_time_ms: int | None = None
    processor: bytes = b""


def read_offset_metadata(text: str) -> OffsetMetadata:
    """What a commit's metadata says. Text of another program or of a version to come says nothing, as in Java."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:  # no base64
        return OffsetMetadata()
    if len(data) < _HEAD.size or data[0] not in _VERSIONS:
        return OffsetMetadata()
    version, time_ms = _HEAD.unpack_from(data)
    rest = data[_HEAD.size :] if version in _WITH_REST else b""
    return OffsetMetadata(None if time_ms == _UNKNOWN else time_ms, rest)


def write_offset_metadata(metadata: OffsetMetadata) -> str:
    """As Java 3.5 and later write it."""
    time_ms = metadata.partition_time_ms
    head = _HEAD.pack(_VERSION, _UNKNOWN if time_ms is None else time_ms)
    return b64encode(head + metadata.processor).decode("ascii")
