"""A record as tasks see it: plain values, whatever client brought it.

What lives here: the shape. What must not: any client library, (de)serialization.
"""

from __future__ import annotations

from typing import NamedTuple

Headers = list[tuple[str, bytes | None]]
"""Header names and values in order; a name may come twice."""


class Record(NamedTuple):
    """One record of an input partition (Kafka: ``ConsumerRecord``). ``headers`` is None when there are none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
