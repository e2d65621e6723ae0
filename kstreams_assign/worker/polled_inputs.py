"""The input that the loop reads, in the order in which it is worked on.

A task with one input partition works on what a poll brings. One with several works on the oldest record first
(``tasks.time_order``), so records wait here until the others have their next record, or none.

Between two records a task may be stopped, started again, paused or rolled back. Then its partitions are not read any
more, or from another offset, and what was polled of them must not be worked on: the task is not to have it, or gets it
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kstreams_assign.errors import OffsetOutOfRange
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.input_offsets import Passed
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.time_order import Run, TimeOrder
from kstreams_assign.worker.neighbours import Inputs

WAIT_MS = 5_000
"""How long a task waits for a partition that has more, such as one without a leader. Then it goes on without."""

POLL_GAP_MS = 100
"""Time without a poll that counts as a wait: while a call of a function is longer, nothing can be brought."""

WAITING_RECORDS_MAX = 20_000
"""So many records of all partitions wait, about; those of one may be as many as a poll brings."""


class PolledInputs:
    """The client that reads input, on the loop's thread. ``InputConsumer`` describes each call and its errors."""

    def __init__(
        self, client: Inputs, poll_records_max: int, waiting_bytes_max: int, now_ms: Callable[[], int]
    ) -> None:
        self._client = client
        self._poll_records_max = poll_records_max
        self._waiting_bytes_max = waiting_bytes_max
        self._now_ms = now_ms
        self._moved: set[TopicPartition] = set()
        """The partitions that were added or removed since the last poll."""
        self._orders: dict[TopicPartition, TimeOrder] = {}
        """Of the tasks with several input partitions."""
        self._waits_since_ms: dict[TopicPartition, int] = {}
        """Since when others wait for the next record of a partition."""
        self._polled_ms = now_ms()
        self._lost: dict[TopicPartition, int] = {}
        """Positions that the brokers no longer hold, of partitions whose records before them are still worked on."""
        self._why_lost = ""
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

        A run of a partition that has moved since the poll is not to be worked on (``reads_on``). Raises
        ``OffsetOutOfRange`` behind all records of the partition before that offset.
        """
        self._moved.clear()
        self._pass_over_gap()
        for partition, records in self._polled(max_records, timeout_s).items():
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
        if self._lost:
            self._raise_lost()

    def _polled(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        try:
            return self._client.poll(max_records, timeout_s)
        except OffsetOutOfRange as cause:
            self._lost |= cause.positions
            self._why_lost = str(cause)
            return {}

    def _raise_lost(self) -> None:
        ready = {at: offset for at, offset in self._lost.items() if at not in self._orders or not self._waiting(at)}
        for partition in ready:
            del self._lost[partition]
        if ready:
            raise OffsetOutOfRange(self._why_lost, ready)

    def _pass_over_gap(self) -> None:
        """Let no wait end only because nothing was polled for a long time."""
        now_ms = self._now_ms()
        gap_ms, self._polled_ms = max(0, now_ms - self._polled_ms - POLL_GAP_MS), now_ms
        if gap_ms:
            self._waits_since_ms = {at: since_ms + gap_ms for at, since_ms in self._waits_since_ms.items()}

    def _waiting(self, partition: TopicPartition) -> int:
        return self._orders[partition].waiting(partition)

    def reads_on(self, partition: TopicPartition) -> bool:
        """Return whether the records of the last poll are still the next ones of this partition."""
        return partition not in self._moved

    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the end offsets of what is read, as far as they are known."""
        return self._client.ends()

    def passed(self) -> Mapping[TopicPartition, Passed]:
        """Return where no records lie behind the last that was polled, worked on or not."""
        return self._client.passed()

    def _move(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what was polled of these. The client fetches them again, if it reads them at all."""
        for partition in partitions:
            self._moved.add(partition)
            self._waits_since_ms.pop(partition, None)
            self._held.discard(partition)
            self._lost.pop(partition, None)
            if (order := self._orders.get(partition)) is not None:
                order.drop(partition)

    def _is_at_end(self, partition: TopicPartition) -> bool:
        if partition in self._lost or self._client.is_at_end(partition):
            self._waits_since_ms.pop(partition, None)
            return True
        now_ms = self._now_ms()
        return now_ms - self._waits_since_ms.setdefault(partition, now_ms) >= WAIT_MS

    def _hold(self) -> None:
        """Stop fetching the partitions that are far ahead of others, and go on with those that are not any more."""
        full = {partition for partition in self._orders if self._filled(partition) >= 1}
        half = {partition for partition in self._held if self._filled(partition) < 0.5}
        self._client.pause(full - self._held)
        self._client.resume(half)
        self._held = (self._held | full) - half

    def _filled(self, partition: TopicPartition) -> float:
        """Return how much of what may wait of a partition waits, by number or by bytes."""
        order, count = self._orders[partition], len(self._orders)
        most = max(self._poll_records_max, WAITING_RECORDS_MAX // count)
        most_bytes = max(1, self._waiting_bytes_max // count)
        return max(order.waiting(partition) / most, order.waiting_bytes(partition) / most_bytes)
