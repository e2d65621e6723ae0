"""Expiry of entries: which have expired at a time, and an index of what expires when beside each store. Pure.

An entry expires ``ttl_ms`` after the time of its last write. That time is in the stored value (``stamped``) and in the
changelog record, so a restored store expires as the one that was lost. The index is a store of its own in the same
database, without a changelog: a row for each entry, sorted by time. A write adds the row in the batch of the entry, a
restore as well as a commit, so entries, index and offsets cannot part.

A write does not read what it replaces, so its old row stays; it is dropped when its time comes and the entry is found
to be newer. To bound such rows, times are rounded up to a fraction of the ttl: an entry has at most ``_FRACTIONS`` + 1
rows, and its tombstone is at most that fraction of the ttl late. Reads compare the exact time.

A standby is not asked what is due. So that its old rows do not pile up, it looks for them as it writes, a few for each
write, whenever as many were written as were there: an index has at most a few times the rows that it needs.

What must not live here: clocks, commits, and what a database is. A restart finds everything again, so nothing here has
to be remembered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kstreams_assign.model import Store, SubtopologyShape, TopicPartition
from kstreams_assign.tasks.stores import TaskStores, Write

_FRACTIONS = 32
_TIME = struct.Struct(">Q")
_TIME_BYTES = _TIME.size
_UNKNOWN, _NEVER = b"", b"\xff" * _TIME_BYTES
_BEFORE_1970 = b"\x80"
"""Values whose time is negative begin with at least this byte: they were written without a time and never expire."""

_SUFFIX = "/expiry"
_COMPLETE = b""
"""The key of the index that says that each entry has its row."""
_BUILD_RECORDS = 10_000
_SWEEP_RECORDS = 10_000
"""So many writes at least lie between two searches for old rows."""


def index_of(store: str) -> str:
    """Return the name of the store that has the index of a store; no topic can have such a name."""
    return store + _SUFFIX


def indexed_by(name: str) -> str | None:
    """Return the store that this store is the index of; None for a store of entries."""
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else None


def store_names(stores: Iterable[Store]) -> list[str]:
    """Return the names of stores, and of the indexes that they need."""
    declared = list(stores)
    return [*(each.name for each in declared), *(index_of(each.name) for each in declared if each.ttl_ms is not None)]


def horizon(now_ms: int, ttl_ms: int) -> bytes:
    """Return the bytes below which a stored value has expired: those of the oldest time that has not."""
    return _TIME.pack(max(0, now_ms - ttl_ms + 1))


class Due(NamedTuple):
    """Keys of entries that have expired. ``more``: the limit was met, there may be others."""

    keys: Sequence[bytes]
    more: bool


NOTHING_DUE = Due((), more=False)


@dataclass(slots=True)
class _Sweep:
    """The search for old rows in an index that is not asked what is due. ``at``: where it goes on; None: it rests."""

    written: int = 0
    kept: int = 0
    at: bytes | None = None

    def rest(self) -> None:
        self.written, self.at = 0, None


class ExpiringStores:
    """Stores of a task (``TaskStores``) of which some have an index, kept with each write.

    ``ttl_ms`` is by store. ``inner`` must have the stores of ``store_names``. Opening builds an index that is missing,
    of a store that was written without ttl.
    """

    def __init__(self, inner: TaskStores, ttl_ms: Mapping[str, int]) -> None:
        self._inner = inner
        self._ttl_ms = ttl_ms
        self._first = dict.fromkeys(ttl_ms, _UNKNOWN)
        """By store: no row of its index has an earlier time."""
        self._due: dict[str, dict[bytes, list[bytes]]] = {store: {} for store in ttl_ms}
        """By store and key: the rows of what ``due`` returned last, to be dropped with the entries."""
        self._sweeps = {store: _Sweep() for store in ttl_ms}
        self.get, self.get_many, self.range = inner.get, inner.get_many, inner.range
        self.offsets, self.identities, self.identify = inner.offsets, inner.identities, inner.identify
        self.approximate_count, self.close = inner.approximate_count, inner.close
        for store in ttl_ms:
            if inner.get(index_of(store), _COMPLETE) is None:
                self._build(store)

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self._inner.write(self._with_rows(writes, sweep=True), offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self._inner.rebuild(self._with_rows(writes, sweep=False), offsets)

    def wipe(self) -> None:
        self._inner.wipe()
        for store in self._ttl_ms:
            self._complete(store)

    def is_due(self, store: str, now_ms: int) -> bool:
        """Return whether ``due`` may return something."""
        self._sweeps[store].rest()
        return self._first[store] < horizon(now_ms, self._ttl_ms[store])

    def due(self, store: str, now_ms: int, *, records_max: int, bytes_max: int) -> Due:
        """Return expired entries, the oldest first; their rows stay until the entries are deleted.

        Rows of entries that were deleted or written again are dropped.
        """
        self._sweeps[store].rest()
        limit = horizon(now_ms, self._ttl_ms[store])
        if self._first[store] >= limit:
            return NOTHING_DUE
        rows, more = self._rows(store, limit, records_max, bytes_max)
        keys = [row[_TIME_BYTES:] for row in rows]
        values = self._inner.get_many(store, keys)
        expired = [value is not None and value < limit for value in values]
        stale = [row for row, its in zip(rows, expired, strict=True) if not its]
        if stale:
            self._inner.write({index_of(store): [(row, None) for row in stale]}, {})
        due = [row for row, its in zip(rows, expired, strict=True) if its]
        rows_of: dict[bytes, list[bytes]] = {}
        for row in due:
            rows_of.setdefault(row[_TIME_BYTES:], []).append(row)
        if due:
            self._first[store] = due[0][:_TIME_BYTES]
        self._due[store] = rows_of
        return Due(list(rows_of), more)

    def _rows(self, store: str, limit: bytes, records_max: int, bytes_max: int) -> tuple[list[bytes], bool]:
        """Return the next rows before ``limit``, and whether there are others; note where the next begins."""
        rows: list[bytes] = []
        size = 0
        # From the first row that may be there: what was dropped before it would have to be passed.
        for row, _ in self._inner.range(index_of(store), max(self._first[store], bytes(1))):
            time = row[:_TIME_BYTES]
            full = bool(rows) and (len(rows) >= records_max or size >= bytes_max)
            if time >= limit or full:
                self._first[store] = time
                return rows, time < limit
            rows.append(row)
            size += len(row)
        self._first[store] = _NEVER
        return rows, False

    def _sweep(self, store: str, number: int) -> list[Write]:
        """Return what drops old rows, after a write of so many entries: of twice as many rows that are looked at."""
        sweep = self._sweeps[store]
        if not number:
            return []  # a batch that brings an offset alone
        sweep.written += number
        if sweep.at is None:
            one_write = sweep.written == number  # of a commit, which has just asked what is due
            if one_write or sweep.written < max(_SWEEP_RECORDS, sweep.kept):
                return []
            sweep.written, sweep.kept, sweep.at = 0, 0, bytes(1)
        rows = [row for row, _ in islice(self._inner.range(index_of(store), sweep.at), 2 * number)]
        values = self._inner.get_many(store, [row[_TIME_BYTES:] for row in rows])
        # Not by the row that an entry would get now: it was made with another ttl, perhaps.
        old = [
            row for row, its in zip(rows, values, strict=True) if its is None or its[:_TIME_BYTES] > row[:_TIME_BYTES]
        ]
        sweep.kept += len(rows) - len(old)
        sweep.at = rows[-1] + bytes(1) if len(rows) == 2 * number else None
        return [(row, None) for row in old]

    def _with_rows(self, writes: Mapping[str, Iterable[Write]], *, sweep: bool) -> Mapping[str, Iterable[Write]]:
        """Return the writes with those of the indexes."""
        indexed = dict(writes)
        for store in self._ttl_ms.keys() & writes.keys():
            entries = list(writes[store])
            indexed[store] = entries
            rows = self._rows_of(store, entries)
            if rows:
                self._first[store] = min(self._first[store], min(rows)[0][:_TIME_BYTES])
            dropped = self._rows_of_deleted(store, entries)
            if sweep:
                dropped += self._sweep(store, len(entries))
            if dropped:
                rows = [*dropped, *rows]  # a row may be there again, after an entry that a restore writes again
            if rows:
                indexed[index_of(store)] = rows
        return indexed

    def _rows_of(self, store: str, entries: Iterable[Write]) -> list[Write]:
        """Return the rows of entries; most have a time of the same fraction as the one before, which saves numbers."""
        width = max(1, self._ttl_ms[store] // _FRACTIONS)
        rows: list[Write] = []
        low, high = _NEVER, _UNKNOWN
        for key, value in entries:
            if value is None:
                continue
            time = value[:_TIME_BYTES]
            if not low <= time <= high:
                if time >= _BEFORE_1970:
                    continue
                begins = _TIME.unpack(time)[0] // width * width
                low, high = _TIME.pack(begins), _TIME.pack(begins + width - 1)
            rows.append((high + key, b""))
        return rows

    def _rows_of_deleted(self, store: str, entries: Iterable[Write]) -> list[Write]:
        due = self._due[store]
        if not due:
            return []
        return [(row, None) for key, value in entries if value is None for row in due.pop(key, ())]

    def _build(self, store: str) -> None:
        stored = self._inner.range(store)
        while entries := list(islice(stored, _BUILD_RECORDS)):
            self._inner.write({index_of(store): self._rows_of(store, entries)}, {})
        self._complete(store)

    def _complete(self, store: str) -> None:
        self._inner.write({index_of(store): [(_COMPLETE, b"")]}, {})
        self._first[store] = _UNKNOWN


def with_expiry(inner: TaskStores, shape: SubtopologyShape) -> TaskStores:
    """Return the stores with expiry, if a store of the subtopology has a ttl."""
    ttl_ms = {store.name: store.ttl_ms for store in shape.stores if store.ttl_ms is not None}
    return ExpiringStores(inner, ttl_ms) if ttl_ms else inner
