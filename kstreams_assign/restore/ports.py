"""What restore needs from the world, as protocols: a store to write and a changelog to read.

``adapters.rocksdb`` is the store, ``adapters.confluent`` the changelog; the simulator brings its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from kstreams_assign.model import TopicPartition

Write = tuple[bytes, bytes | None]
"""Key and value; value ``None`` deletes (a tombstone in the changelog)."""


class TaskStores(Protocol):
    """All stores of one task in one database, with the changelog offsets they hold.

    Offsets are *next* offsets: what the changelog's reader would read next. They live in the database
    itself and change only together with the data (KIP-1035), so they cannot run ahead of it.
    Used by one thread at a time.
    """

    def get(self, store: str, key: bytes) -> bytes | None: ...

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``start <= key < end`` in byte order, or in the opposite order with ``reverse``."""
        ...

    def offsets(self) -> Mapping[TopicPartition, int]: ...

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        """Apply the writes of each store and the new offsets in one atomic batch."""
        ...

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        """As ``write``, faster, for a part of a changelog that is far from its end.

        Only a later ``write`` or ``close`` makes it outlast a crash, which takes data and offsets together.
        """
        ...

    def identities(self) -> Mapping[str, str]:
        """Topic -> its id, of the changelogs that the offsets belong to, as given to ``identify``."""
        ...

    def identify(self, identities: Mapping[str, str]) -> None:
        """Keep these ids beside the offsets; ``wipe`` forgets them with those."""
        ...

    def wipe(self) -> None:
        """Forget all data and offsets: the changelog will be read from its start."""
        ...

    def close(self) -> None: ...


class Bounds(NamedTuple):
    """First offset and high watermark of a changelog partition.

    ``topic_id``: another topic of the same name has another.

    ``limit``: a source topic that is a changelog, too, is read to what the group has committed of it, and not to its
    end.
    """

    first: int
    end: int
    topic_id: str | None = None
    limit: int | None = None

    @property
    def restored_at(self) -> int:
        """The next offset of a store that holds all it should."""
        return self.end if self.limit is None else self.limit


class ChangelogBatch(NamedTuple):
    """Records of one changelog partition, oldest first, and the offset to read next.

    ``next_offset`` also passes what holds no record: transaction markers, compacted offsets, the end of the log.
    ``in_range`` is false when the log no longer has the offset asked for (truncated, or the topic created again):
    then ``writes`` is empty, ``next_offset`` is what was asked for, and the reader has stopped reading it.
    """

    partition: TopicPartition
    writes: list[Write]
    next_offset: int
    in_range: bool = True


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
        """Of each partition; one that does not exist yet is left out, and one without a leader just now is None.

        The high watermark and not the last stable offset: an owner-to-be has to wait for what a transaction
        still holds back. Raises ``BrokerUnavailable``.
        """
        ...

    def close(self) -> None: ...
