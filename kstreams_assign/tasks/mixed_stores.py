"""The stores of a task that has some on disk and some in memory, as one (``tasks.stores.TaskStores``).

Each store, with its changelog's offset and topic id, is in one of the two parts. A write reaches both parts or none:
the part in memory is asked first whether it will take the write, and gets it after the disk has. A process that dies in
between loses the part in memory anyway, and restores it from the start of its changelog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.stores import TaskStores, Write

K = TypeVar("K")
V = TypeVar("V")


class MixedStores:
    """``changelogs``: the store in memory -> its changelog's partition, None without a changelog.

    Offsets of ``sources`` may go back; the part on disk was opened with them.
    """

    def __init__(
        self,
        on_disk: TaskStores,
        changelogs: Mapping[str, TopicPartition | None],
        sources: frozenset[str] = frozenset(),
    ) -> None:
        self._on_disk = on_disk
        self._in_memory = MemoryStores(changelogs, sources)
        self._stores = frozenset(changelogs)
        self._partitions = frozenset(partition for partition in changelogs.values() if partition is not None)
        self._topics = frozenset(partition.topic for partition in self._partitions)

    def get(self, store: str, key: bytes) -> bytes | None:
        return self._of(store).get(store, key)

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._of(store).get_many(store, keys)

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._of(store).range(store, start, end, reverse=reverse)

    def approximate_count(self, store: str) -> int:
        return self._of(store).approximate_count(store)

    def offsets(self) -> Mapping[TopicPartition, int]:
        return {**self._on_disk.offsets(), **self._in_memory.offsets()}

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        kept, volatile = _split(writes, self._stores)
        kept_offsets, volatile_offsets = _split(offsets, self._partitions)
        self._in_memory.refuse_wrong_write(volatile, volatile_offsets)
        self._on_disk.write(kept, kept_offsets)  # also without anything: it ends a rebuild
        self._in_memory.write(volatile, volatile_offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        kept, volatile = _split(writes, self._stores)
        kept_offsets, volatile_offsets = _split(offsets, self._partitions)
        self._in_memory.refuse_wrong_write(volatile, volatile_offsets)
        if kept or kept_offsets:
            self._on_disk.rebuild(kept, kept_offsets)
        self._in_memory.rebuild(volatile, volatile_offsets)

    def identities(self) -> Mapping[str, str]:
        return {**self._on_disk.identities(), **self._in_memory.identities()}

    def identify(self, identities: Mapping[str, str]) -> None:
        kept, volatile = _split(identities, self._topics)
        if kept:
            self._on_disk.identify(kept)
        self._in_memory.identify(volatile)

    def wipe(self) -> None:
        self._on_disk.wipe()
        self._in_memory.wipe()

    def close(self) -> None:
        self._on_disk.close()
        self._in_memory.close()

    def _of(self, store: str) -> TaskStores:
        return self._in_memory if store in self._stores else self._on_disk


def _split(entries: Mapping[K, V], chosen: frozenset[K]) -> tuple[dict[K, V], dict[K, V]]:
    """Return the entries on disk, and those in memory."""
    kept = {key: value for key, value in entries.items() if key not in chosen}
    return kept, {key: value for key, value in entries.items() if key in chosen}
