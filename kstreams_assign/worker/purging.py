"""Records of repartition topics that are consumed for good, deleted: nothing else limits such a topic (``retention.ms=-1``).

Kafka: ``TaskManager.maybePurgeCommittedRecords``. Only what is committed goes, at most once an interval, and nobody waits: one
request is on its way at a time, and what a failed one left goes with the next. Used by the processing thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kstreams_assign.model import TopicPartition
from kstreams_assign.worker.events import EventLog


class Deletions(Protocol):
    """The brokers' side."""

    @property
    def busy(self) -> bool: ...

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def failures(self) -> Mapping[TopicPartition, str]:
        """Of the last request, told once."""


class Purging:
    """What may go, and when it is asked for."""

    def __init__(
        self,
        topics: Collection[str],
        interval_ms: int,
        deletions: Deletions,
        now_ms: Callable[[], int],
        log: EventLog,
    ) -> None:
        self._topics = frozenset(topics)
        self._interval_ms = interval_ms
        self._deletions = deletions
        self._now_ms = now_ms
        self._log = log
        self._next_ms = now_ms() + interval_ms
        self._consumed: dict[TopicPartition, int] = {}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has committed these next offsets."""
        self._consumed.update((p, offset) for p, offset in offsets.items() if p.topic in self._topics)

    def turn(self) -> None:
        """Ask for it, if the interval is over and the last request is through."""
        if self._deletions.busy:
            return
        self._tell_of_the_last()
        if not self._consumed or self._now_ms() < self._next_ms:
            return
        consumed, self._consumed = self._consumed, {}
        self._deletions.delete_before(consumed)
        self._next_ms = self._now_ms() + self._interval_ms

    def _tell_of_the_last(self) -> None:
        if failed := self._deletions.failures():
            reasons = sorted({f"{partition.topic}: {why}" for partition, why in failed.items()})
            self._log.emit("purge_failed", warnings=[f"consumed records are not deleted, {why}" for why in reasons])
