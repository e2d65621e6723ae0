"""Values of timestamped stores: in a store 8 bytes of timestamp (big endian, milliseconds), then the value, as Java's have it.

In the changelog stands the value alone; its time is the record's (Kafka: ``RecordConverters.rawValueToTimestampedValue``). Pure bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import add
from typing import NamedTuple

_TIME = struct.Struct(">q")
_TIME_BYTES = "8s"


class ValueAndTime(NamedTuple):
    """A value and its timestamp in milliseconds (Kafka: ``ValueAndTimestamp``)."""

    value: bytes
    timestamp_ms: int


def stamped(value: bytes, timestamp_ms: int) -> bytes:
    """As it stands in a store."""
    return _TIME.pack(timestamp_ms) + value


def value_of(stored: bytes) -> bytes:
    """The value alone."""
    return stored[_TIME.size :]


def value_and_time(stored: bytes) -> ValueAndTime:
    return ValueAndTime(stored[_TIME.size :], *_TIME.unpack_from(stored))


def stamped_all(values: Sequence[bytes | None], timestamps_ms: Sequence[int]) -> Iterable[bytes | None]:
    """Many at once, without a call in Python for each where no value is None; None stays (a tombstone)."""
    packed = struct.pack(f">{len(timestamps_ms)}q", *timestamps_ms)
    times = [time for (time,) in struct.iter_unpack(_TIME_BYTES, packed)]
    if None in values:
        return [None if value is None else time + value for time, value in zip(times, values, strict=True)]
    return map(add, times, values)
