"""A task's stores as the user's code sees them: reads of the buffer and the disk, writes that wait for the commit.

What must not live here: when to commit, what a database is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import ABSENT, WriteBuffer
from kstreams_assign.tasks.prefixes import prefix_end
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.given import BYTES, BYTES_OR_NONE, MILLISECONDS, Place
from kstreams_assign.worker.reads import Reads, TimestampedReads

Pair = tuple[bytes, bytes | None]


class KeyValueStore(Reads):
    """Read and write one store of a task (Kafka: ``KeyValueStore``).

    Keys are bytes, values bytes or None; another type raises ``TypeError`` at once, also a bytearray and a memoryview,
    which their owner may change. The time of a write is its changelog record's: ``timestamp_ms`` (since 1970), or else
    the current input record's; one out of range raises ``ValueError``. Writes reach the store, the changelog and the
    standbys with the next commit.
    """

    __slots__ = ("_at_work", "_name", "_place", "_stores", "_writes")

    def __init__(self, name: str, stores: TaskStores, buffer: WriteBuffer, at_work: AtWork, task: TaskId) -> None:
        self._place = Place(task, f"store {name!r}", at_work)
        self._name = name
        self._stores = stores
        self._writes = buffer.of(name)
        self._at_work = at_work

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None."""
        if type(key) is not bytes:
            self._place.check("key", (key,))
        buffered = self._writes.get(key)
        return self._stores.get(self._name, key) if buffered is ABSENT else buffered  # type: ignore[return-value]

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Return the newest values of many keys, in their order, with one read of the disk."""
        keys = list(keys)
        if not BYTES.issuperset(map(type, keys)):
            self._place.check("key", keys)
        buffered = self._writes.get_many(keys)
        missing = [key for key, value in zip(keys, buffered, strict=True) if value is ABSENT]
        stored = dict(zip(missing, self._stores.get_many(self._name, missing), strict=True)) if missing else {}
        return [
            stored[key] if value is ABSENT else value  # type: ignore[misc]
            for key, value in zip(keys, buffered, strict=True)
        ]

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Write a value; None deletes the key, as in Java."""
        if type(key) is not bytes or type(value) is not bytes:
            self._check((key,), (value,))
        time_ms = self._at_work.record.timestamp_ms if timestamp_ms is None else self._time(timestamp_ms)
        self._writes.put(key, value, time_ms)

    def put_many(
        self, entries: Iterable[tuple[bytes, bytes | None]], timestamps_ms: Sequence[int] | None = None
    ) -> None:
        """Write many values at once; None deletes a key. ``timestamps_ms`` has one time for each."""
        pairs = list(entries)
        keys = [key for key, _ in pairs]
        self._check(keys, [value for _, value in pairs])
        times = self._place.times(timestamps_ms, len(pairs), self._at_work.record.timestamp_ms)
        self._writes.put_many(dict(self._laid_out(pairs, times)), dict(zip(keys, times, strict=True)))

    def delete(self, key: bytes, timestamp_ms: int | None = None) -> None:
        """Delete a key; the changelog gets a tombstone."""
        self._check((key,), ())
        self._writes.put(key, None, self._time(timestamp_ms))

    def approximate_count(self) -> int:
        """Return an estimate of the number of entries (Kafka: ``approximateNumEntries``); never negative.

        A write counts as a new key until it is committed, and on disk until RocksDB compacts the files that have it.
        In memory the count of committed entries is exact.
        """
        return max(0, self._stores.approximate_count(self._name) + self._writes.count_change())

    def _prefix_end(self, prefix: bytes) -> bytes | None:
        self._place.check("prefix", (prefix,))
        return prefix_end(prefix)

    def _range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        self._place.check("an end of the range", (start, end), BYTES_OR_NONE)
        stored = self._stores.range(self._name, start, end, reverse=reverse)
        return self._writes.overlay(stored, start, end, reverse=reverse)

    def _time(self, timestamp_ms: int | None) -> int:
        if timestamp_ms is None:
            return self._at_work.record.timestamp_ms
        return self._place.number("timestamp_ms", timestamp_ms, MILLISECONDS)

    def _check(self, keys: Collection[bytes], values: Collection[bytes | None]) -> None:
        if not BYTES.issuperset(map(type, keys)):
            self._place.check("key", keys)
        if not BYTES_OR_NONE.issuperset(map(type, values)):
            self._place.check("value", values, BYTES_OR_NONE)

    def _laid_out(self, pairs: Sequence[Pair], _times: Sequence[int]) -> Iterable[Pair]:
        """As the store holds them."""
        return pairs


class TimestampedKeyValueStore(TimestampedReads, KeyValueStore):
    """Read and write a store that keeps each value's time (Kafka: ``TimestampedKeyValueStore``, the DSL's default).

    The methods of ``KeyValueStore`` work here with the values alone.
    """

    __slots__ = ()

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Write a value; None deletes the key, as in Java."""
        if type(key) is not bytes or type(value) is not bytes:
            self._check((key,), (value,))
        time_ms = self._at_work.record.timestamp_ms if timestamp_ms is None else self._time(timestamp_ms)
        self._writes.put(key, None if value is None else stamped(value, time_ms), time_ms)

    def _laid_out(self, pairs: Sequence[Pair], times: Sequence[int]) -> Iterable[Pair]:
        return [
            (key, None if value is None else stamped(value, time_ms))
            for (key, value), time_ms in zip(pairs, times, strict=True)
        ]
