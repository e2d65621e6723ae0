"""The record cache: what tasks read and wrote lately of their stores on disk (``statestore.cache.max.bytes``).

All stores of a process share one limit. Each store has two generations of entries: what is used goes to the young one,
and when the young ones together have half of the limit, they become the old ones and the old ones go. So a read costs
one or two look-ups, far less than one of a database, and less than a list in order of use would cost.

What must not live here: what waits for a commit (``buffer``). Used by one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.stores import TaskStores, Write

ENTRY_BYTES = 128
"""What an entry takes besides the bytes of key and value: two objects' heads, and its place in a dictionary."""

_ABSENT: Any = object()
"""Nothing is known of a key; None is known to be in no store."""


class _Entries:
    """The entries of one store."""

    __slots__ = ("old", "young")

    def __init__(self) -> None:
        self.young: dict[bytes, bytes | None] = {}
        self.old: dict[bytes, bytes | None] = {}

    def forget(self) -> None:
        self.young, self.old = {}, {}


class RecordCache:
    """The entries of all stores of a process, within ``limit_bytes``; 0 keeps none."""

    def __init__(self, limit_bytes: int) -> None:
        self._half_bytes = limit_bytes // 2
        self._added_bytes = 0
        self._tasks: set[CachedStores] = set()

    def over(self, stores: TaskStores, on_disk: Iterable[str]) -> TaskStores:
        """Return a task's stores with this cache before those on disk; ``disclose`` gives them back."""
        names = list(on_disk)
        if not self._half_bytes or not names:
            return stores
        cached = CachedStores(self, stores, names)
        self._tasks.add(cached)
        return cached

    def disclose(self, stores: TaskStores) -> TaskStores:
        """Return the stores that ``over`` was given, and forget their entries: someone else may write them now."""
        if isinstance(stores, CachedStores):
            self._tasks.discard(stores)
        return behind_cache(stores)

    def makes_room(self, size_bytes: int) -> bool:
        """Note that young entries of so many bytes are added now; return False if they are too large to be kept."""
        if self._added_bytes + size_bytes > self._half_bytes:
            if size_bytes > self._half_bytes:
                return False
            self._turn(size_bytes)
        self._added_bytes += size_bytes
        return True

    def size_bytes(self) -> int:
        """Return the bytes of all entries."""
        return sum(
            _size(part) for stores in self._tasks for each in stores.entries() for part in (each.young, each.old)
        )

    def _turn(self, size_bytes: int) -> None:
        """Make the young entries old, unless they are few: most of what was added replaced what was there."""
        young = [entries for stores in self._tasks for entries in stores.entries()]
        self._added_bytes = sum(_size(entries.young) for entries in young)
        if self._added_bytes + size_bytes > self._half_bytes * 3 // 4:
            for entries in young:
                entries.old, entries.young = entries.young, {}
            self._added_bytes = 0


class CachedStores:
    """A task's stores (``tasks.stores.TaskStores``), those on disk behind the cache.

    Every write goes through here, so an entry is what the store has.
    """

    def __init__(self, cache: RecordCache, behind: TaskStores, on_disk: Sequence[str]) -> None:
        self.behind = behind
        self._cache = cache
        self._entries = {store: _Entries() for store in on_disk}

    def entries(self) -> Iterable[_Entries]:
        """Return the entries of each store."""
        return self._entries.values()

    def get(self, store: str, key: bytes) -> bytes | None:
        entries = self._entries.get(store)
        if entries is None:
            return self.behind.get(store, key)
        value: bytes | None = entries.young.get(key, _ABSENT)
        if value is _ABSENT:
            value = entries.old.get(key, _ABSENT)
            if value is _ABSENT:
                value = self.behind.get(store, key)
            if self._cache.makes_room(ENTRY_BYTES + len(key) + (0 if value is None else len(value))):
                entries.young[key] = value
        return value

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        entries = self._entries.get(store)
        if entries is None:
            return self.behind.get_many(store, keys)
        values: list[bytes | None] = list(map(entries.young.get, keys, repeat(_ABSENT)))
        unknown = {key: _ABSENT for key, value in zip(keys, values, strict=True) if value is _ABSENT}
        if not unknown:
            return values
        known = {key: entries.old[key] for key in unknown if key in entries.old}
        missing = [key for key in unknown if key not in known]
        if missing:
            known.update(zip(missing, self.behind.get_many(store, missing), strict=True))
        self._keep(entries, known)
        return [known[key] if value is _ABSENT else value for key, value in zip(keys, values, strict=True)]

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.behind.range(store, start, end, reverse=reverse)

    def approximate_count(self, store: str) -> int:
        return self.behind.approximate_count(store)

    def offsets(self) -> Mapping[TopicPartition, int]:
        return self.behind.offsets()

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        newest = {store: dict(entries) for store, entries in writes.items()}
        try:
            self.behind.write({store: entries.items() for store, entries in newest.items()}, offsets)
        except BaseException:
            self._forget()  # it may have been written or not
            raise
        for store, written in newest.items():
            if (entries := self._entries.get(store)) is not None:
                self._keep(entries, written)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self._forget()
        self.behind.rebuild(writes, offsets)

    def identities(self) -> Mapping[str, str]:
        return self.behind.identities()

    def identify(self, identities: Mapping[str, str]) -> None:
        self.behind.identify(identities)

    def wipe(self) -> None:
        self._forget()
        self.behind.wipe()

    def close(self) -> None:
        self._forget()
        self.behind.close()

    def _keep(self, entries: _Entries, newest: Mapping[bytes, bytes | None]) -> None:
        if self._cache.makes_room(_size(newest)):
            entries.young.update(newest)
        else:
            for key in newest:
                entries.young.pop(key, None)
                entries.old.pop(key, None)

    def _forget(self) -> None:
        for entries in self._entries.values():
            entries.forget()


def behind_cache(stores: TaskStores) -> TaskStores:
    """Return a task's stores without the cache, to ask for what other stores do not have."""
    return stores.behind if isinstance(stores, CachedStores) else stores


def _size(entries: Mapping[bytes, bytes | None]) -> int:
    return ENTRY_BYTES * len(entries) + sum(map(len, entries)) + sum(map(len, filter(None, entries.values())))
