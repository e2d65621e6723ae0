"""A record as tasks see it, independent of the Kafka client.

What lives here: the shape. What must not: any client library, (de)serialization.
"""

from __future__ import annotations

from typing import NamedTuple

Headers = list[tuple[str, bytes | None]]
"""Header names and values in order; a name may occur twice."""


class Record(NamedTuple):
    """Hold one record of an input partition (Kafka: ``ConsumerRecord``)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    """None if the record has none."""
