"""The input that the loop reads, in the order in which it is worked on.

A task with one input partition works on what a poll brings. One with several works on the oldest record first
(``tasks.time_order``), so records wait here until the others have their next record, or none.

Between two records a task may be stopped, started again, paused or rolled back. Then its partitions are not read any
more, or from another offset, and what was polled of them must not be worked on: the task is not to have it, or gets it
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.time_order import Run, TimeOrder
from kstreams_assign.worker.neighbours import Inputs

WAIT_MS = 5_000
"""How long a task waits for a partition that has more, such as one without a leader. Then it goes on without."""

WAITING_RECORDS_MAX = 20_000
"""So many records of all partitions wait, about; those of one may be as many as a poll brings."""


class PolledInputs:
    """The client that reads input, on the loop's thread. ``InputConsumer`` describes each call and its errors."""

    def __init__(self, client: Inputs, poll_records_max: int, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._poll_records_max = poll_records_max
        self._now_ms = now_ms
        self._moved: set[TopicPartition] = set()
        """The partitions that were added or removed since the last poll."""
        self._orders: dict[TopicPartition, TimeOrder] = {}
        """Of the tasks with several input partitions."""
        self._waits_since_ms: dict[TopicPartition, int] = {}
        """Since when others wait for the next record of a partition."""
        self._held: set[TopicPartition] = set()
        """The partitions that are not fetched, as enough of their records wait."""

    def order(self, partitions: Iterable[TopicPartition]) -> None:
        """A task begins: from now on these partitions, if they are several, are worked on by the time of records."""
        together = [*partitions]
        if len(together) > 1:
            self._orders.update(dict.fromkeys(together, TimeOrder(together)))

    def remove_order(self, partitions: Iterable[TopicPartition]) -> None:
        """The task of these partitions ends."""
        for partition in partitions:
            self._orders.pop(partition, None)

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on."""
        self._move(positions)
        self._client.add(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        leaving = [*partitions]
        self._move(leaving)
        self._client.remove(leaving)

    def poll(self, max_records: int, timeout_s: float) -> Iterator[Run]:
        """Yield the next records that may be worked on; what is left of an earlier poll is not asked about any more.

        A run of a partition that has moved since the poll is not to be worked on (``reads_on``).
        """
        self._moved.clear()
        polled = self._client.poll(max_records, timeout_s)
        for partition, records in polled.items():
            order = self._orders.get(partition)
            if order is None:
                yield Run(partition, records)
            elif self.reads_on(partition):  # while others were worked on, too
                self._waits_since_ms.pop(partition, None)
                order.add(partition, records)
        for order in dict.fromkeys(self._orders.values()):
            while (run := order.next_run(self._is_at_end)) is not None:
                yield run
        if self._orders:
            self._hold()

    def reads_on(self, partition: TopicPartition) -> bool:
        """Return whether the records of the last poll are still the next ones of this partition."""
        return partition not in self._moved

    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the end offsets of what is read, as far as they are known."""
        return self._client.ends()

    def _move(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what was polled of these. The client fetches them again, if it reads them at all."""
        for partition in partitions:
            self._moved.add(partition)
            self._waits_since_ms.pop(partition, None)
            self._held.discard(partition)
            if (order := self._orders.get(partition)) is not None:
                order.drop(partition)

    def _is_at_end(self, partition: TopicPartition) -> bool:
        if self._client.is_at_end(partition):
            self._waits_since_ms.pop(partition, None)
            return True
        now_ms = self._now_ms()
        return now_ms - self._waits_since_ms.setdefault(partition, now_ms) >= WAIT_MS

    def _hold(self) -> None:
        """Stop fetching the partitions that are far ahead of others, and go on with those that are not any more."""
        most = max(self._poll_records_max, WAITING_RECORDS_MAX // len(self._orders))
        full = {partition for partition, order in self._orders.items() if order.waiting(partition) >= most}
        half = {partition for partition in self._held if self._orders[partition].waiting(partition) * 2 < most}
        self._client.pause(full - self._held)
        self._client.resume(half)
        self._held = (self._held | full) - half
