"""The order in which a task with several input partitions works on their records: the oldest head comes first.

A join needs the table's record before the stream's that is younger, also in a backlog, where a fetch brings thousands
of records of one partition and none of the other. So a task does not go on while one of its partitions has nothing here
and more at the broker. Kafka: ``PartitionGroup`` and ``RecordQueue``, with ``max.task.idle.ms=0``.

What must not live here: reading input, and how long to wait for a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record


class Run(NamedTuple):
    """Neighbouring records of one partition, at least one."""

    partition: TopicPartition
    records: Sequence[Record]


class _Queue:
    """The records of a partition that wait, oldest first."""

    def __init__(self) -> None:
        self._records: Sequence[Record] = ()
        self._first = 0
        self._record_bytes = 0.0

    def __len__(self) -> int:
        return len(self._records) - self._first

    @property
    def head_ms(self) -> int:
        return self._records[self._first].timestamp_ms

    @property
    def size_bytes(self) -> float:
        """Return about how many bytes the keys and values have."""
        return len(self) * self._record_bytes

    def add(self, records: Sequence[Record]) -> None:
        size = self.size_bytes + sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self._records, self._first = [*self._records[self._first :], *records] if len(self) else records, 0
        self._record_bytes = size / max(1, len(self))

    def take_to(self, last_ms: float) -> Sequence[Record]:
        """Take the head, and all behind it up to the first that is younger than ``last_ms``."""
        stop, end = self._first + 1, len(self._records)
        while stop < end and self._records[stop].timestamp_ms <= last_ms:
            stop += 1
        taken = self._records[self._first : stop]
        self._records, self._first = (self._records, stop) if stop < end else ((), 0)
        return taken


class TimeOrder:
    """The records of one task that wait. Of two heads of the same time the partition that sorts first has the first."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self._queues = {partition: _Queue() for partition in sorted(partitions)}

    def add(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Let the next records of a partition wait."""
        self._queues[partition].add(records)

    def drop(self, partition: TopicPartition) -> None:
        """Forget the records of a partition: it is read from elsewhere, or not at all."""
        self._queues[partition] = _Queue()

    def waiting(self, partition: TopicPartition) -> int:
        """Return how many records of a partition wait."""
        return len(self._queues[partition])

    def waiting_bytes(self, partition: TopicPartition) -> float:
        """Return about how many bytes the keys and values of those records have."""
        return self._queues[partition].size_bytes

    def next_run(self, is_at_end: Callable[[TopicPartition], bool]) -> Run | None:
        """Take the next records; None: there are none, or a partition without one may bring older ones.

        ``is_at_end`` says of a partition without records here that it has none at the broker, or is not waited for.
        """
        full = [(partition, queue) for partition, queue in self._queues.items() if len(queue)]
        if not full or not all(is_at_end(partition) for partition, queue in self._queues.items() if not len(queue)):
            return None
        (partition, oldest), *others = sorted(full, key=lambda each: each[1].head_ms)  # keeps the order of equals
        last_ms = min((queue.head_ms - (other < partition) for other, queue in others), default=float("inf"))
        return Run(partition, oldest.take_to(last_ms))
