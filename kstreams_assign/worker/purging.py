"""Delete consumed records from repartition topics, which nothing else limits (``retention.ms=-1``).

Kafka: ``TaskManager.maybePurgeCommittedRecords``. Only committed records are deleted, at most once an interval, and no
thread waits: one request is on its way at a time, and the next one includes what may succeed later. A reason is
reported once, and again if it comes back. Used by the processing thread.

Offsets are kept only while their task runs here, and only until the brokers refuse them. A topic that is created again
begins at offset 0, so an offset of the topic before it would delete records that no task has read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from kstreams_assign.errors import BrokerUnavailable, KStreamsAssignError
from kstreams_assign.events import PurgeFailedEvent
from kstreams_assign.model import TopicPartition
from kstreams_assign.worker.events import EventLog


class Deletions(Protocol):
    """The brokers' side."""

    @property
    def busy(self) -> bool: ...

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def failures(self) -> Mapping[TopicPartition, KStreamsAssignError]:
        """Return the failures of the last request, once; ``BrokerUnavailable`` where another may succeed."""


class Purging:
    """Which records may be deleted, and when the brokers are asked."""

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
        self._followed: set[TopicPartition] = set()
        self._consumed: dict[TopicPartition, int] = {}
        self._asked: dict[TopicPartition, int] = {}
        self._reported: frozenset[str] = frozenset()

    def follow(self, inputs: Iterable[TopicPartition]) -> None:
        """A task runs: delete what it commits."""
        self._followed.update(partition for partition in inputs if partition.topic in self._topics)

    def forget(self, inputs: Iterable[TopicPartition]) -> None:
        """A task has stopped: what it has consumed is deleted after the next commit, by its owner then."""
        for partition in inputs:
            self._followed.discard(partition)
            self._consumed.pop(partition, None)
            self._asked.pop(partition, None)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the group has committed these next offsets; a commit may end after its task has stopped."""
        self._consumed.update((p, offset) for p, offset in offsets.items() if p in self._followed)

    def turn(self) -> None:
        """Ask for the deletion if the interval is over and the last request is answered."""
        if self._deletions.busy:
            return
        self._end_request()
        if not self._consumed or self._now_ms() < self._next_ms:
            return
        self._asked, self._consumed = self._consumed, {}
        self._deletions.delete_before(self._asked)
        self._next_ms = self._now_ms() + self._interval_ms

    def _end_request(self) -> None:
        """Ask again for what may succeed later, from a newer offset if there is one."""
        if not self._asked:
            return
        asked, self._asked = self._asked, {}
        failed = {partition: why for partition, why in self._deletions.failures().items() if partition in asked}
        passing = [partition for partition, why in failed.items() if isinstance(why, BrokerUnavailable)]
        self._consumed = {**{partition: asked[partition] for partition in passing}, **self._consumed}
        reasons = frozenset(f"{partition.topic}: {why}" for partition, why in failed.items())
        if new := sorted(reasons - self._reported):
            self._log.emit(PurgeFailedEvent(warnings=tuple(f"consumed records are not deleted, {why}" for why in new)))
        self._reported = reasons
