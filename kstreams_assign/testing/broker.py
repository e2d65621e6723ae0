"""Topics in memory: what a broker keeps for one application, with its offsets.

As at a broker, a transaction's marker takes an offset of each partition that it wrote to, and the records of an aborted
one take offsets that no reader sees. What must not live here: when something is written or read (``clients``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from kstreams_assign.errors import RecordRefused
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.locating import partition_of

_offset_of = attrgetter("offset")


@dataclass(slots=True)
class _Partition:
    """The readable records of a partition, and its next offset."""

    records: list[Record] = field(default_factory=list)
    end: int = 0


@dataclass(slots=True)
class _Topic:
    """A topic. ``written``: what the topology wrote, in order; the first ``read`` of it have been read by the test."""

    partitions: list[_Partition]
    written: list[Record] = field(default_factory=list)
    read: int = 0
    without_key: int = 0


class MemoryBroker:
    """The topics, and the positions that the group has committed."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.committed: dict[TopicPartition, Position] = {}

    # --- topics ------------------------------------------------------------------------

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; one that exists gets the partitions that it lacks, and keeps its records.

        A changelog lacks them while no topic matches the pattern of its subtopology.
        """
        there = self._topics.setdefault(topic, _Topic([])).partitions
        there.extend(_Partition() for _ in range(partitions - len(there)))

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        return {name: len(topic.partitions) for name, topic in self._topics.items()}

    def place(self, topic: str, key: bytes | None, partition: int | None) -> int:
        """Return the partition of a record: the given one, or that of its key.

        Records without a key take the partitions in turn; Kafka's clients choose at random.
        """
        there = self._topics[topic]
        if partition is not None:
            return partition
        if key is not None:
            return partition_of(key, len(there.partitions))
        there.without_key += 1
        return (there.without_key - 1) % len(there.partitions)

    # --- writing -----------------------------------------------------------------------

    def append(self, row: Row, *, by_topology: bool) -> None:
        """Append a record whose partition is known."""
        topic, key, value, headers, number, timestamp_ms = row
        assert number is not None
        assert timestamp_ms is not None
        there = self._topics[topic]
        partition = there.partitions[number]
        record = Record(topic, number, partition.end, timestamp_ms, key, value, list(headers) or None)
        partition.records.append(record)
        partition.end += 1
        if by_topology:
            there.written.append(record)

    def skip(self, at: TopicPartition, offsets: int) -> None:
        """Use offsets up without a record: of a marker, or of records that were aborted."""
        self._topics[at.topic].partitions[at.partition].end += offsets

    def refuse_missing(self, row: Row) -> None:
        """Raise ``RecordRefused`` for a partition that does not exist, with librdkafka's reason."""
        topic, key, value, _, partition, _ = row
        there = len(self._topics[topic].partitions)
        if partition is not None and partition >= there:
            raise RecordRefused(
                f"produce to {topic}-{partition}: the topic has {there} partition{'' if there == 1 else 's'}",
                topic,
                partition,
                key,
                absent=True,
                size_bytes=len(key or b"") + len(value or b""),
                invalid=True,
                contents=frozenset({hash((key, value))}),
            )

    # --- reading -----------------------------------------------------------------------

    def end(self, at: TopicPartition) -> int:
        """Return the next offset of a partition."""
        return self._topics[at.topic].partitions[at.partition].end

    def records(self, at: TopicPartition, offset: int, records_max: int) -> Sequence[Record]:
        """Return copies of the readable records from an offset on."""
        there = self._topics[at.topic].partitions[at.partition].records
        first = bisect_left(there, offset, key=_offset_of)
        return _copies(there[first : first + records_max])

    def has_records(self, at: TopicPartition, offset: int) -> bool:
        """Return whether there is a readable record at this offset or behind it."""
        there = self._topics[at.topic].partitions[at.partition].records
        return bool(there) and there[-1].offset >= offset

    def unread(self, topic: str) -> list[Record]:
        """Return copies of what the topology wrote to a topic since the last ``read_written``, oldest first."""
        there = self._topics[topic]
        return _copies(there.written[there.read :])

    def read_written(self, topic: str) -> list[Record]:
        """Return what ``unread`` returns; it is read then."""
        unread = self.unread(topic)
        self._topics[topic].read += len(unread)
        return unread

    def written_topics(self) -> list[str]:
        """Return the topics that the topology has written to, in alphabetical order."""
        return sorted(name for name, topic in self._topics.items() if topic.written)

    # --- the group ---------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]) -> None:
        """Keep the group's next offsets."""
        self.committed.update((p, Position(offset, metadata.get(p, ""))) for p, offset in offsets.items())

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return where to read each partition: at its committed offset, or at its start."""
        return {p: self.committed.get(p, Position(0)) for p in partitions}


def _copies(records: Iterable[Record]) -> list[Record]:
    """Return the records as a client reads them: a list of headers that a reader changes is its own."""
    return [each if each.headers is None else each._replace(headers=list(each.headers)) for each in records]
