"""Input partitions that the brokers do not know, and how long their offsets are kept for another commit.

The topic was deleted, or created again with fewer partitions. Or the broker that was asked has not heard of a new topic
yet: so the offsets go with the next commits at first, and are dropped only after ``KEPT_MS``. If the partition exists
after all, a later commit has the offset behind its next records; after a crash records are processed again, and none is
lost.

What must not live here: committing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.events import OffsetsDroppedEvent
from kstreams_assign.model import TopicPartition

KEPT_MS = 10_000
"""A broker that has just started hears of all topics within a few seconds."""


class AbsentInputs:
    """Which partitions the brokers do not know, by their answers to commits. Used by one thread at a time."""

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._now_ms = now_ms
        self._since_ms: dict[TopicPartition, int] = {}
        self._dropped: set[TopicPartition] = set()

    def answered(self, offered: Iterable[TopicPartition], absent: Collection[TopicPartition] = ()) -> bool:
        """Note which of the partitions of a commit are absent. Return whether to keep their offsets."""
        now_ms = self._now_ms()
        for partition in offered:
            if partition in absent:
                self._since_ms.setdefault(partition, now_ms)
            else:
                self._since_ms.pop(partition, None)
                self._dropped.discard(partition)
        return any(now_ms - self._since_ms[partition] < KEPT_MS for partition in absent)

    def drop(self, absent: Collection[TopicPartition]) -> OffsetsDroppedEvent | None:
        """Note that offsets of these are dropped. Return the event that reports each of them once."""
        news = set(absent) - self._dropped
        self._dropped |= news
        names = tuple(map(str, sorted(news)))
        warning = (
            f"the input offsets of {', '.join(names)} are not committed, as the brokers do not know the partitions: "
            "a topic was deleted, or created again with fewer partitions; all other offsets are committed"
        )
        return OffsetsDroppedEvent(partitions=names, warnings=(warning,)) if names else None
