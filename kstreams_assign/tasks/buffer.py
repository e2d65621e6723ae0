"""The writes of a task between two commits.

They wait here, visible to the task's own reads. A commit sends them to the changelog and then writes them into the
store, in one batch with the changelog's new offsets. Meanwhile reads see them in a second layer here, while new writes
go to the first. A process that dies rolls back, as it has not committed.

A savepoint undoes what one call of the user's function wrote and emitted: each store remembers what the first write of
a key replaced. A commit that begins ends the savepoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice, repeat
from operator import itemgetter
from typing import NamedTuple


class Emitted(NamedTuple):
    """Hold a record for an output topic; with ``partition`` None the key decides, as in Java."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class _Absent:
    """Type of ``ABSENT``: the buffer has nothing for a key. None means that the key was deleted."""


class _Replaced(NamedTuple):
    """What the first write of a key since a savepoint replaced."""

    value: bytes | _Absent | None
    time_ms: int


Row = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None, int | None]
"""An ``Emitted`` in the buffer.

The garbage collector does not track a plain tuple of bytes and numbers, but it tracks a named tuple.
"""


EARLIEST_MS = 1
"""The time that a row of the time 0 is sent with: librdkafka takes 0 for the current time."""
_key_of, _value_of = itemgetter(1), itemgetter(2)
_NONE_LAST: Mapping[str, AbstractSet[bytes]] = {}


class Taken(NamedTuple):
    """What a commit takes: by store the values (None deletes) and their times, and the emitted records.

    ``ahead``: so many of these, the first, have been sent before the commit. ``last``: by store, keys whose changelog
    records follow everything else.
    """

    writes: Mapping[str, Mapping[bytes, bytes | None]]
    times: Mapping[str, Mapping[bytes, int]]
    emitted: Sequence[Row]
    ahead: int = 0
    last: Mapping[str, AbstractSet[bytes]] = _NONE_LAST


ABSENT = _Absent()


@dataclass(slots=True)
class StoreWrites:
    """The newest write of each key of a store; None as a value deletes.

    ``times``: the timestamp of each write's changelog record, in milliseconds. ``leaving``: the writes of a commit on
    its way. ``size_bytes``: all that was written since that commit began, overwritten values included. ``replaced``: by
    key, what a savepoint restores; None without a savepoint. ``last``: keys whose changelog records follow everything
    else of their commit.
    """

    writes: dict[bytes, bytes | None] = field(default_factory=dict)
    times: dict[bytes, int] = field(default_factory=dict)
    leaving: dict[bytes, bytes | None] = field(default_factory=dict)
    size_bytes: int = 0
    replaced: dict[bytes, _Replaced] | None = None
    size_at_savepoint: int = 0
    last: set[bytes] = field(default_factory=set)

    def put(self, key: bytes, value: bytes | None, time_ms: int) -> None:
        if self.replaced is not None and key not in self.replaced:
            self.replaced[key] = self._entry(key)
        self.writes[key] = value
        self.times[key] = time_ms
        self.size_bytes += len(key) if value is None else len(key) + len(value)

    def delete_last(self, key: bytes, time_ms: int) -> None:
        """Delete a key; at least once its tombstone is sent when all else of the commit has arrived."""
        self.put(key, None, time_ms)
        self.last.add(key)

    def put_many(self, entries: Mapping[bytes, bytes | None], times_ms: Mapping[bytes, int]) -> None:
        """Put many entries; ``times_ms`` has the same keys."""
        if self.replaced is not None:
            self.replaced |= {key: self._entry(key) for key in entries if key not in self.replaced}
        self.writes.update(entries)
        self.times.update(times_ms)
        self.size_bytes += sum(map(len, entries)) + sum(map(len, filter(None, entries.values())))

    def get(self, key: bytes) -> bytes | _Absent | None:
        newest = self.writes.get(key, ABSENT)
        return self.leaving.get(key, ABSENT) if newest is ABSENT else newest

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | _Absent | None]:
        """Return what ``get`` returns, for many keys."""
        newest: list[bytes | _Absent | None] = list(map(self.writes.get, keys, repeat(ABSENT)))
        if self.leaving:
            older = map(self.leaving.get, keys, repeat(ABSENT))
            return [old if new is ABSENT else new for new, old in zip(newest, older, strict=True)]
        return newest

    def overlay(
        self, stored: Iterator[tuple[bytes, bytes]], start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the stored entries of a range in their order, merged with these writes.

        ``stored`` is read lazily; ``reverse`` means that it is in descending byte order.
        """
        ours = {**self.leaving, **self.writes}
        keys = [k for k in ours if (start is None or start <= k) and (end is None or k < end)]
        written = [(key, ours[key]) for key in sorted(keys, reverse=reverse)]
        hidden = ((key, value) for key, value in stored if key not in ours)
        merged = merge(hidden, written, key=itemgetter(0), reverse=reverse)
        return ((key, value) for key, value in merged if value is not None)

    def count_change(self) -> int:
        """Return the number of keys that are written, less those that are deleted, wherever they were before."""
        ours = {**self.leaving, **self.writes}
        deleted = sum(value is None for value in ours.values())
        return len(ours) - 2 * deleted

    def _entry(self, key: bytes) -> _Replaced:
        return _Replaced(self.writes.get(key, ABSENT), self.times.get(key, 0))

    def save(self) -> None:
        """Set a savepoint, in place of an earlier one."""
        self.replaced, self.size_at_savepoint = {}, self.size_bytes

    def undo(self) -> None:
        """End the savepoint and undo the writes since then; nothing without a savepoint."""
        if self.replaced is None:
            return
        for key, (value, time_ms) in self.replaced.items():
            if isinstance(value, _Absent):
                del self.writes[key], self.times[key]
            else:
                self.writes[key], self.times[key] = value, time_ms
        self.replaced, self.size_bytes = None, self.size_at_savepoint

    def drop(self) -> None:
        """Drop what no commit took."""
        self.writes, self.times, self.size_bytes, self.replaced, self.last = {}, {}, 0, None, set()


@dataclass(slots=True)
class WriteBuffer:
    """The writes of all stores of a task, and its emitted records in order with the bytes of their keys and values.

    ``ahead``: so many of the records, the first, have been sent before their commit.
    """

    stores: dict[str, StoreWrites] = field(default_factory=dict)
    emitted: list[Row] = field(default_factory=list)
    emitted_bytes: int = 0
    ahead: int = 0
    _savepoint: tuple[int, int] | None = None
    """Number and bytes of the emitted records then."""

    def of(self, store: str) -> StoreWrites:
        """Return the writes of one store: the same object as long as the buffer lives."""
        writes = self.stores.get(store)
        if writes is None:
            writes = self.stores[store] = StoreWrites()
            if self._savepoint is not None:
                writes.save()
        return writes

    def emit_many(self, rows: Sequence[Row]) -> None:
        self.emitted.extend(rows)
        for field_of in (_key_of, _value_of):
            self.emitted_bytes += sum(map(len, filter(None, map(field_of, rows))))

    def save(self) -> None:
        """Set a savepoint, in place of an earlier one."""
        self._savepoint = len(self.emitted), self.emitted_bytes
        for writes in self.stores.values():
            writes.save()

    def undo(self) -> None:
        """End the savepoint and undo what was written and emitted since then; nothing without a savepoint."""
        if self._savepoint is None:
            return
        records, self.emitted_bytes = self._savepoint
        del self.emitted[records:]
        self._savepoint = None
        for writes in self.stores.values():
            writes.undo()

    def emitted_since_savepoint(self) -> Iterator[Row]:
        """Yield the records that were emitted since the savepoint; none without one."""
        return iter(()) if self._savepoint is None else islice(self.emitted, self._savepoint[0], None)

    def take(self) -> Taken:
        """Begin a commit: return all writes and records; reads see the writes until ``landed``."""
        written = {name: writes for name, writes in self.stores.items() if writes.writes}
        taken = Taken(
            {name: writes.writes for name, writes in written.items()},
            {name: writes.times for name, writes in written.items()},
            self.emitted,
            self.ahead,
            {name: writes.last for name, writes in written.items() if writes.last},
        )
        for writes in self.stores.values():
            writes.leaving = writes.writes
        self.drop()
        return taken

    def landed(self) -> None:
        """Note that the store holds what ``take`` returned."""
        for writes in self.stores.values():
            writes.leaving = {}

    def drop(self) -> None:
        """Drop what no ``take`` returned."""
        for writes in self.stores.values():
            writes.drop()
        self.emitted, self.emitted_bytes, self.ahead, self._savepoint = [], 0, 0, None

    def size_bytes(self) -> int:
        """Return the bytes of keys and values that were written and emitted since the last ``take``."""
        return self.emitted_bytes + sum(writes.size_bytes for writes in self.stores.values())

    def __len__(self) -> int:
        return sum(len(writes.writes) for writes in self.stores.values()) + len(self.emitted)
