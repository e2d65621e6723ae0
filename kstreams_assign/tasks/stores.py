"""The stores of one task as a protocol: what the loop, the restore thread and a commit do with them.

``adapters.rocksdb`` has the stores on disk, ``memory_stores`` those in memory, ``mixed_stores`` both; the simulator
brings its own. What must not live here: how stores are kept, and how changelogs are read (``restore.ports``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kstreams_assign.model import TopicPartition

Write = tuple[bytes, bytes | None]
"""Key and value; value ``None`` deletes (a tombstone in the changelog)."""


class TaskStores(Protocol):
    """All stores of one task, with the changelog offsets they hold.

    Offsets are *next* offsets: what the changelog's reader would read next. They are where the data is, and change only
    together with it (KIP-1035), so they cannot run ahead of it. An offset that goes back is ``StoreDamaged``: its topic
    was deleted and created again. But a source topic that is a changelog (``sources``) is read again from the committed
    offset after a failure, while the store may hold more of it; then data and offset go back together.
    Used by one thread at a time.
    """

    def get(self, store: str, key: bytes) -> bytes | None: ...

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``start <= key < end`` in byte order, or in the opposite order with ``reverse``."""
        ...

    def approximate_count(self, store: str) -> int:
        """Return an estimate of the number of entries; never negative."""
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


def found_gone_back(
    offsets: Mapping[TopicPartition, int], held: Mapping[TopicPartition, int], sources: frozenset[str]
) -> str | None:
    """Say which of the ``offsets`` is below the one that is ``held``, or None; those of ``sources`` may be."""
    for partition, offset in offsets.items():
        if offset < held.get(partition, 0) and partition.topic not in sources:
            return (
                f"is at offset {held[partition]} of {partition}, which has gone back to {offset}: "
                "the topic was deleted and created again"
            )
    return None
