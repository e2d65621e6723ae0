"""A task's stores and outputs with Python values in place of bytes: each call codes, then calls the view of bytes.

What must not live here: what is written and when (``views``), serdes, the texts of their errors (``coding``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from kstreams_assign.serdes.serde import Serde
from kstreams_assign.tasks.stamped import ValueAndTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.coding import Coder
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore

K = TypeVar("K")
V = TypeVar("V")


class TypedKeyValueStore(Generic[K, V]):
    """Read and write one store of a task with Python values (``Task.store`` with ``key`` and ``value``).

    Every method does what that of ``KeyValueStore`` does. Raises ``SerializationError`` for a key or value that a serde
    cannot write, and for stored bytes that it cannot read.
    """

    __slots__ = ("_keys", "_store", "_values")

    def __init__(
        self, store: KeyValueStore, key: Serde[K], value: Serde[V], topic: str, where: str, at_work: AtWork
    ) -> None:
        """``topic`` is the changelog: serdes of a schema registry name their subjects after it, as in Java."""
        self._store = store
        self._keys = Coder(key, topic, "key", where, at_work)
        self._values = Coder(value, topic, "value", where, at_work)

    def get(self, key: K) -> V | None:
        """Return the newest value of a key, or None."""
        stored = self._store.get(self._keys.write(key))
        return None if stored is None else self._values.read(stored)

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """Return the newest values of many keys, in their order, with one read of the disk."""
        read = self._values.read_or_none
        return [read(stored) for stored in self._store.get_many(self._coded(keys))]

    def put(self, key: K, value: V | None, timestamp_ms: int | None = None) -> None:
        """Write a value; None deletes the key, as in Java."""
        self._store.put(self._keys.write(key), None if value is None else self._values.write(value), timestamp_ms)

    def put_many(self, entries: Iterable[tuple[K, V | None]], timestamps_ms: Sequence[int] | None = None) -> None:
        """Write many values at once; None deletes a key. ``timestamps_ms`` has one time for each."""
        write_key, write_value = self._keys.write, self._values.write_or_none
        self._store.put_many([(write_key(key), write_value(value)) for key, value in entries], timestamps_ms)

    def delete(self, key: K, timestamp_ms: int | None = None) -> None:
        """Delete a key; the changelog gets a tombstone."""
        self._store.delete(self._keys.write(key), timestamp_ms)

    def range(self, start: K | None = None, end: K | None = None, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Return a snapshot of the entries with ``start <= key < end`` in the order of the keys' bytes.

        Bytes decide, as in Java: negative numbers of the ``int`` serdes come after positive ones, and strings are in
        the order of their UTF-8. ``reverse`` descends.
        """
        return self._read(self._store.range(*self._ends(start, end), reverse=reverse))

    def prefix_scan(self, prefix: K, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Return a snapshot of the entries whose keys' bytes begin with those of ``prefix``, written as a key is."""
        return self._read(self._store.prefix_scan(self._keys.write(prefix), reverse=reverse))

    def approximate_count(self) -> int:
        """Return an estimate of the number of entries, as ``KeyValueStore.approximate_count`` does."""
        return self._store.approximate_count()

    def _read(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        read_key, read_value = self._keys.read, self._values.read
        return ((read_key(key), read_value(value)) for key, value in entries)

    def _coded(self, keys: Iterable[K]) -> list[bytes]:
        return list(map(self._keys.write, keys))

    def _ends(self, start: K | None, end: K | None) -> tuple[bytes | None, bytes | None]:
        return self._keys.write_or_none(start), self._keys.write_or_none(end)


class TypedTimestampedKeyValueStore(TypedKeyValueStore[K, V]):
    """Read and write a store that keeps each value's time, with Python values (``Task.timestamped_store``).

    The methods of ``TypedKeyValueStore`` work here with the values alone.
    """

    __slots__ = ("_timestamped",)

    def __init__(
        self, store: TimestampedKeyValueStore, key: Serde[K], value: Serde[V], topic: str, where: str, at_work: AtWork
    ) -> None:
        super().__init__(store, key, value, topic, where, at_work)
        self._timestamped = store

    def get_with_timestamp(self, key: K) -> ValueAndTime[V] | None:
        """Return the newest value of a key with its time, or None."""
        return self._typed(self._timestamped.get_with_timestamp(self._keys.write(key)))

    def get_many_with_timestamps(self, keys: Iterable[K]) -> list[ValueAndTime[V] | None]:
        """Return the newest values of many keys with their times, in their order."""
        return list(map(self._typed, self._timestamped.get_many_with_timestamps(self._coded(keys))))

    def range_with_timestamps(
        self, start: K | None = None, end: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, ValueAndTime[V]]]:
        """Return what ``range`` does, each value with its time."""
        return self._read_with_times(self._timestamped.range_with_timestamps(*self._ends(start, end), reverse=reverse))

    def prefix_scan_with_timestamps(self, prefix: K, *, reverse: bool = False) -> Iterator[tuple[K, ValueAndTime[V]]]:
        """Return what ``prefix_scan`` does, each value with its time."""
        begins = self._keys.write(prefix)
        return self._read_with_times(self._timestamped.prefix_scan_with_timestamps(begins, reverse=reverse))

    def _read_with_times(
        self, entries: Iterable[tuple[bytes, ValueAndTime[bytes]]]
    ) -> Iterator[tuple[K, ValueAndTime[V]]]:
        read_key, read_value = self._keys.read, self._values.read
        return ((read_key(key), ValueAndTime(read_value(stored.value), stored.timestamp_ms)) for key, stored in entries)

    def _typed(self, stored: ValueAndTime[bytes] | None) -> ValueAndTime[V] | None:
        return None if stored is None else ValueAndTime(self._values.read(stored.value), stored.timestamp_ms)


def typed_view(
    store: KeyValueStore, key: Serde[K], value: Serde[V], topic: str, where: str, at_work: AtWork
) -> TypedKeyValueStore[K, V]:
    """Return the typed view of a store: that with times for a store that keeps them."""
    if isinstance(store, TimestampedKeyValueStore):
        return TypedTimestampedKeyValueStore(store, key, value, topic, where, at_work)
    return TypedKeyValueStore(store, key, value, topic, where, at_work)


class Emits(Protocol):
    """What sends records: ``Task``."""

    def emit(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send a record."""
        ...

    def emit_many(
        self,
        topic: str,
        entries: Iterable[tuple[bytes | None, bytes | None]],
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        """Send many records."""
        ...


class Sink(Generic[K, V]):
    """Send records with Python values to one of the subtopology's sinks (``Task.sink``)."""

    __slots__ = ("_keys", "_name", "_task", "_values")

    def __init__(
        self, task: Emits, name: str, key: Serde[K], value: Serde[V], topic: str, where: str, at_work: AtWork
    ) -> None:
        """``name`` is what the task takes, ``topic`` its full name."""
        self._task = task
        self._name = name
        self._keys = Coder(key, topic, "key", where, at_work)
        self._values = Coder(value, topic, "value", where, at_work)

    def emit(
        self,
        key: K | None,
        value: V | None,
        *,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send a record, as ``Task.emit`` does; None sends no key or value.

        Raises ``SerializationError`` for a key or value that the serde cannot write.
        """
        self._task.emit(
            self._name,
            None if key is None else self._keys.write(key),
            None if value is None else self._values.write(value),
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

    def emit_many(
        self, entries: Iterable[tuple[K | None, V | None]], timestamps_ms: Sequence[int] | None = None
    ) -> None:
        """Send many records, as ``Task.emit_many`` does. Raises ``SerializationError``; then none of them is sent."""
        write_key, write_value = self._keys.write_or_none, self._values.write_or_none
        coded = [(write_key(key), write_value(value)) for key, value in entries]
        self._task.emit_many(self._name, coded, timestamps_ms)
