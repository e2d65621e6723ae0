"""The stores of one task in memory (``tasks.stores.TaskStores``): a dict for each store.

A range needs the keys in order. They are brought into order when a range is asked for: at first all, later those that
were added since. So a store that is never ranged over costs as much as its dict. What must not live here: changelogs,
files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from weakref import WeakSet

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.stores import Write, found_gone_back


class _Range(Iterator[tuple[bytes, bytes]]):
    """Entries of a range as they are now. They are read when they are asked for, or before the store changes."""

    __slots__ = ("__weakref__", "_rest")

    def __init__(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        self._rest = entries

    def __next__(self) -> tuple[bytes, bytes]:
        return next(self._rest)

    def read_all(self) -> None:
        """Read what is left, as the store is about to change."""
        self._rest = iter(list(self._rest))

    def end(self) -> None:
        """Drop what is left."""
        self._rest = iter(())


class _Entries:
    """The entries of one store.

    ``_ordered``: its keys in order, or None before the first range. Keys that were ``_added`` since are not among them,
    and those ``_removed`` since still are.
    """

    __slots__ = ("_added", "_ordered", "_ranges", "_removed", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._ordered: list[bytes] | None = None
        self._added: set[bytes] = set()
        self._removed: set[bytes] = set()
        self._ranges: WeakSet[_Range] = WeakSet()

    def write(self, writes: Iterable[Write]) -> None:
        for entries in list(self._ranges):
            entries.read_all()
        self._ranges.clear()
        for key, value in writes:
            if value is None:
                self._delete(key)
            else:
                if self._ordered is not None and key not in self.values:
                    self._note_new(key)
                self.values[key] = value

    def end_ranges(self) -> None:
        """End all ranges, as the store goes away."""
        for entries in list(self._ranges):
            entries.end()

    def _delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is None or self._ordered is None:
            return
        if key in self._added:
            self._added.remove(key)
        else:
            self._removed.add(key)

    def _note_new(self, key: bytes) -> None:
        if key in self._removed:
            self._removed.remove(key)
        else:
            self._added.add(key)

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        ordered = self._in_order()
        first = 0 if start is None else bisect_left(ordered, start)
        last = len(ordered) if end is None else bisect_left(ordered, end)
        values = self.values
        keys = map(ordered.__getitem__, range(last - 1, first - 1, -1) if reverse else range(first, last))
        entries = _Range((key, values[key]) for key in keys)
        self._ranges.add(entries)
        return entries

    def _in_order(self) -> list[bytes]:
        """Return the keys in order. A list that was returned is not changed."""
        if self._ordered is None:
            self._ordered = sorted(self.values)
        elif self._added or self._removed:
            self._ordered = _merged(self._ordered, self._added, self._removed)
            self._added, self._removed = set(), set()
        return self._ordered


def _merged(ordered: list[bytes], added: set[bytes], removed: set[bytes]) -> list[bytes]:
    """Return the keys with those that were added and without those that were removed.

    What lies between is copied in whole stretches, which takes less than half the time of sorting all keys again.
    """
    merged: list[bytes] = []
    at = 0
    for key in sorted(added | removed):
        place = bisect_left(ordered, key, at)
        merged += ordered[at:place]
        if key in added:
            merged.append(key)
            at = place
        else:
            at = place + 1
    merged += ordered[at:]
    return merged


class MemoryStores:
    """All stores of one task. Data and offsets are lost with ``close``. Offsets of ``sources`` may go back."""

    def __init__(self, names: Iterable[str], sources: frozenset[str] = frozenset()) -> None:
        self._sources = sources
        self._entries = {name: _Entries() for name in names}
        self._offsets: dict[TopicPartition, int] = {}
        self._identities: dict[str, str] = {}
        self._closed = False

    def get(self, store: str, key: bytes) -> bytes | None:
        return self._of(store).values.get(key)

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._of(store).values.get, keys))

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries as they are now. Ends early when the stores are closed or wiped."""
        return self._of(store).range(start, end, reverse=reverse)

    def approximate_count(self, store: str) -> int:
        """Return the number of entries, which is exact here."""
        return len(self._of(store).values)

    def offsets(self) -> Mapping[TopicPartition, int]:
        return dict(self._offsets)

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.refuse_wrong_write(writes, offsets)
        for store, entries in writes.items():
            self._entries[store].write(entries)
        self._offsets.update(offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.write(writes, offsets)

    def refuse_wrong_write(self, stores: Iterable[str], offsets: Mapping[TopicPartition, int]) -> None:
        """Raise what ``write`` of these would raise: ``StoreDamaged`` for offsets that go back, ``StateError``."""
        if self._closed:
            raise self._no_such("")
        for store in stores:
            self._of(store)
        if found := found_gone_back(offsets, self._offsets, self._sources):
            raise StoreDamaged(f"the in-memory store {found}")

    def identities(self) -> Mapping[str, str]:
        return dict(self._identities)

    def identify(self, identities: Mapping[str, str]) -> None:
        self._identities.update(identities)

    def wipe(self) -> None:
        for store, entries in self._entries.items():
            entries.end_ranges()
            self._entries[store] = _Entries()
        self._offsets.clear()
        self._identities.clear()

    def close(self) -> None:
        """Free the memory. Later calls raise ``StateError``."""
        self._closed = True
        for entries in self._entries.values():
            entries.end_ranges()
        self._entries.clear()
        self._offsets.clear()

    def _of(self, store: str) -> _Entries:
        entries = self._entries.get(store)
        if entries is None:
            raise self._no_such(store)
        return entries

    def _no_such(self, store: str) -> StateError:
        return StateError("the in-memory stores are closed" if self._closed else f"there is no in-memory {store!r}")
