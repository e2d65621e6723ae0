"""Values of timestamped stores: 8 bytes of timestamp (big endian, milliseconds), then the value, as in Java.

The changelog has the value alone, and its time is the record's (Kafka:
``RecordConverters.rawValueToTimestampedValue``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import add
from typing import Generic, NamedTuple, TypeVar

_TIME = struct.Struct(">q")
_TIME_BYTES = "8s"
V = TypeVar("V")


class ValueAndTime(NamedTuple, Generic[V]):
    """Hold a value and its time in milliseconds since 1970 (Kafka: ``ValueAndTimestamp``).

    The value is bytes, or of the type of a typed store.
    """

    value: V
    timestamp_ms: int


def stamped(value: bytes, timestamp_ms: int) -> bytes:
    """Return a value as it is in a store."""
    return _TIME.pack(timestamp_ms) + value


def value_of(stored: bytes) -> bytes:
    """Return the value without its time."""
    return stored[_TIME.size :]


def value_and_time(stored: bytes) -> ValueAndTime[bytes]:
    """Return the value and its time."""
    return ValueAndTime(stored[_TIME.size :], *_TIME.unpack_from(stored))


def stamped_all(values: Sequence[bytes | None], timestamps_ms: Sequence[int]) -> Iterable[bytes | None]:
    """Return many values as they are in a store, without a Python call for each unless a value is None; None stays."""
    packed = struct.pack(f">{len(timestamps_ms)}q", *timestamps_ms)
    times = [time for (time,) in struct.iter_unpack(_TIME_BYTES, packed)]
    if None in values:
        return [None if value is None else time + value for time, value in zip(times, values, strict=True)]
    return map(add, times, values)
