"""The stores of one task in memory (``tasks.stores.TaskStores``): a dict for each store.

A range needs the keys in order. They are sorted when a range is asked for after keys were added or deleted, so a store
that is never ranged over costs as much as its dict. What must not live here: changelogs, files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.stores import Write


class _Entries:
    """The entries of one store, and its keys in order, or None while those are out of date."""

    __slots__ = ("sorted_keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.sorted_keys: list[bytes] | None = None

    def write(self, writes: Iterable[Write]) -> None:
        values = self.values
        for key, value in writes:
            if value is None:
                if values.pop(key, None) is not None:
                    self.sorted_keys = None
            else:
                if key not in values:
                    self.sorted_keys = None
                values[key] = value

    def keys(self, start: bytes | None, end: bytes | None) -> list[bytes]:
        if self.sorted_keys is None:
            self.sorted_keys = sorted(self.values)
        ordered = self.sorted_keys
        first = 0 if start is None else bisect_left(ordered, start)
        return ordered[first : len(ordered) if end is None else bisect_left(ordered, end)]


class MemoryStores:
    """All stores of one task. Data and offsets are lost with the object, but not at ``close``."""

    def __init__(self, names: Iterable[str]) -> None:
        self._entries = {name: _Entries() for name in names}
        self._offsets: dict[TopicPartition, int] = {}
        self._identities: dict[str, str] = {}

    def get(self, store: str, key: bytes) -> bytes | None:
        return self._entries[store].values.get(key)

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._entries[store].values.get, keys))

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries as they are now: later writes do not change them."""
        entries = self._entries[store]
        keys = entries.keys(start, end)
        if reverse:
            keys.reverse()
        return iter([(key, entries.values[key]) for key in keys])

    def offsets(self) -> Mapping[TopicPartition, int]:
        return dict(self._offsets)

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        for store, entries in writes.items():
            self._entries[store].write(entries)
        self._offsets.update(offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.write(writes, offsets)

    def identities(self) -> Mapping[str, str]:
        return dict(self._identities)

    def identify(self, identities: Mapping[str, str]) -> None:
        self._identities.update(identities)

    def wipe(self) -> None:
        for store in self._entries:
            self._entries[store] = _Entries()
        self._offsets.clear()
        self._identities.clear()

    def close(self) -> None:
        """Do nothing: the entries stay for the next use of this object."""
