"""The clients of the processing loop on ``MemoryBroker``: one reads input, one writes, one writes in transactions.

They answer at once. What the real ones are: ``adapters.confluent``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from kstreams_assign.errors import DeliveryFailed, TransactionAborted
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import EARLIEST_MS, Row
from kstreams_assign.tasks.input_offsets import Passed
from kstreams_assign.tasks.record import Record
from kstreams_assign.testing.broker import MemoryBroker

_ON_PURPOSE = "the test makes this commit fail"


class MemoryInputs:
    """Reads input partitions (``worker.neighbours.Inputs``)."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._next: dict[TopicPartition, int] = {}

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self._next.update(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:  # noqa: ARG002
        polled: dict[TopicPartition, Sequence[Record]] = {}
        for partition, offset in self._next.items():
            records = self._broker.records(partition, offset, max_records)
            if records:
                polled[partition] = records
                max_records -= len(records)
            if max_records == 0:
                break
        self._next.update((partition, records[-1].offset + 1) for partition, records in polled.items())
        return polled

    def ends(self) -> Mapping[TopicPartition, int]:
        return {partition: self._broker.end(partition) for partition in self._next}

    def is_at_end(self, partition: TopicPartition) -> bool:
        return not self._broker.has_records(partition, self._next[partition])

    def passed(self) -> Mapping[TopicPartition, Passed]:
        ends = ((at, offset, self._broker.end(at)) for at, offset in self._next.items() if self.is_at_end(at))
        return {partition: Passed(offset, end) for partition, offset, end in ends if offset < end}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Do nothing: what waits is bounded by what a test writes."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Do nothing, as for ``pause``."""

    @property
    def any_waits(self) -> bool:
        """Whether a record waits to be read."""
        return any(self._broker.has_records(partition, offset) for partition, offset in self._next.items())


class MemoryProducer:
    """Writes at least once (``worker.record_outputs.RecordOutputs``).

    What is sent ahead of a commit is readable at once, and the rest once the commit's records are acknowledged. Of a
    commit that fails on purpose only what was sent ahead arrives.
    """

    def __init__(self, broker: MemoryBroker, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now_ms = now_ms
        self._queued: list[Row] = []
        self._tracked: set[TopicPartition] = set()
        self.fails_next = False

    def begin_commit(self) -> None:
        """Nothing is still on its way."""

    def send_ahead(self, rows: Iterable[Row]) -> int:
        sent = 0
        for row in rows:
            placed = self._placed(row)
            if placed is None:
                break
            self._broker.append(placed, by_topology=True)
            sent += 1
        return sent

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None:
        for row in rows:
            placed = self._placed(row)
            if placed is None:
                self._broker.refuse_missing(row)
            else:
                self._queued.append(placed)
                if track:
                    self._tracked.add(_partition(placed))

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, int]:  # noqa: ARG002
        return self.acknowledged()

    def acknowledged(self) -> Mapping[TopicPartition, int]:
        """Return the next offsets of the tracked partitions. Raises ``DeliveryFailed`` on purpose."""
        self._fail_on_purpose(DeliveryFailed)
        self._append_queued()
        return {partition: self._broker.end(partition) for partition in self._take_tracked()}

    def abandon(self) -> None:
        self._queued.clear()
        self._tracked.clear()

    def _append_queued(self) -> None:
        for row in self._queued:
            self._broker.append(row, by_topology=True)
        self._queued.clear()

    def _take_tracked(self) -> set[TopicPartition]:
        tracked, self._tracked = self._tracked, set()
        return tracked

    def _fail_on_purpose(self, error: type[DeliveryFailed | TransactionAborted]) -> None:
        if self.fails_next:
            self.fails_next = False
            raise error(_ON_PURPOSE)

    def _placed(self, row: Row) -> Row | None:
        """Return the row with its partition and time; None for a partition that does not exist."""
        topic, key, value, headers, partition, timestamp_ms = row
        number = self._broker.place(topic, key, partition)
        if number >= self._broker.partition_counts()[topic]:
            return None
        time_ms = self._now_ms() if timestamp_ms is None else timestamp_ms or EARLIEST_MS
        return topic, key, value, headers, number, time_ms


class MemoryTransactions(MemoryProducer):
    """Writes exactly once (``worker.record_outputs.TransactionalOutputs``): readable when the transaction commits."""

    def __init__(self, broker: MemoryBroker, now_ms: Callable[[], int]) -> None:
        super().__init__(broker, now_ms)
        self._offsets: dict[TopicPartition, int] = {}
        self._metadata: dict[TopicPartition, str] = {}

    @property
    def settled(self) -> bool:
        return True

    def prepare(self, timeout_s: float) -> None:
        """There is no predecessor."""

    def begin(self, timeout_s: float) -> None:
        """The first record begins it."""

    def acknowledged(self) -> Mapping[TopicPartition, int]:
        """Return the next offsets of the tracked partitions, as they are once the transaction is committed."""
        queued = Counter(map(_partition, self._queued))
        return {partition: self._broker.end(partition) + queued[partition] for partition in self._take_tracked()}

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        member: MemberId,  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        metadata: Mapping[TopicPartition, str],
    ) -> None:
        self._offsets.update(offsets)
        self._metadata.update(metadata)

    def commit(self, timeout_s: float) -> None:  # noqa: ARG002
        """Make the transaction readable. Raises ``TransactionAborted`` on purpose."""
        self._fail_on_purpose(TransactionAborted)
        written = set(map(_partition, self._queued))
        self._append_queued()
        self._broker.commit(self._offsets, self._metadata)
        self._end(dict.fromkeys(written, 1))

    def abort(self, timeout_s: float) -> None:  # noqa: ARG002
        aborted = Counter(map(_partition, self._queued))
        self._end({partition: records + 1 for partition, records in aborted.items()})

    def abandon(self) -> None:
        """Nothing: ``abort`` drops the records."""

    def leave(self) -> None:
        """No call of this client hangs."""

    def _end(self, used_offsets: Mapping[TopicPartition, int]) -> None:
        """End the transaction, with its marker in each partition."""
        for partition, offsets in used_offsets.items():
            self._broker.skip(partition, offsets)
        super().abandon()
        self._offsets.clear()
        self._metadata.clear()


def _partition(row: Row) -> TopicPartition:
    topic, _, _, _, partition, _ = row
    assert partition is not None
    return TopicPartition(topic, partition)
