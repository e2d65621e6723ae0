"""What restore reads, as a protocol: changelogs and where they end. What it writes is ``tasks.stores``.

``adapters.confluent`` has the reader of a worker; the simulator brings its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.stores import Write


class Bounds(NamedTuple):
    """First offset and high watermark of a changelog partition.

    ``topic_id``: another topic of the same name has another.

    ``limit``: a source topic that is a changelog, too, is read to what the group has committed of it, or to its end if
    that comes first: a topic may lose its last records.
    """

    first: int
    end: int
    topic_id: str | None = None
    limit: int | None = None

    @property
    def restored_at(self) -> int:
        """The next offset of a store that holds all it should."""
        return self.end if self.limit is None else min(self.end, self.limit)


class ChangelogBatch(NamedTuple):
    """Records of one changelog partition, oldest first, and the offset to read next.

    ``next_offset`` also passes what holds no record: transaction markers, compacted offsets, the end of the log.
    ``in_range`` is false when the log no longer has the offset asked for (truncated, or the topic created again):
    then ``writes`` is empty, ``next_offset`` is what was asked for, and the reader has stopped reading it. Such an
    answer may be late: about an offset that was asked for before the partition was added again.
    ``unreadable`` says why the records at ``next_offset`` cannot be read, if so: then ``writes`` is empty, too, and the
    reader has stopped reading the partition.
    """

    partition: TopicPartition
    writes: list[Write]
    next_offset: int
    in_range: bool = True
    unreadable: str = ""


class ChangelogReader(Protocol):
    """Reads many changelog partitions at once. Used by one thread."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading these partitions at these offsets."""
        ...

    def remove(self, partitions: Iterable[TopicPartition]) -> None: ...

    def poll(self, timeout_s: float) -> list[ChangelogBatch]:
        """Whatever has arrived, at most one batch a partition; empty when nothing came in ``timeout_s``.

        Waits even when nothing is being read, so a loop around it does not spin. Raises ``BrokerUnavailable``.
        """
        ...

    def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds | None]:
        """Of each partition; one that does not exist yet is left out.

        None: it has no leader just now, or its limit is not known (an open transaction holds it back).

        The high watermark and not the last stable offset: an owner-to-be has to wait for what a transaction
        still holds back. Raises ``BrokerUnavailable``.
        """
        ...

    def close(self) -> None: ...
