"""The reads that a task's stores and global tables have in common, and how those with times read.

What must not live here: where a value comes from (``views``, ``global_views``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kstreams_assign.tasks.stamped import ValueAndTime, value_and_time, value_of


class Reads:
    """Read entries as they are stored."""

    __slots__ = ()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        raise NotImplementedError

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Return the values of many keys, in their order."""
        raise NotImplementedError

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return a snapshot of the entries with ``start <= key < end`` in byte order; ``reverse`` descends."""
        return self._range(start, end, reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Return a snapshot of the entries whose keys begin with ``prefix``, in byte order; ``reverse`` descends."""
        return self.range(prefix, self._prefix_end(prefix), reverse=reverse)

    def _range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries as they are stored. Raises ``TypeError`` for an end that is not bytes."""
        raise NotImplementedError

    def _prefix_end(self, prefix: bytes) -> bytes | None:
        """Return where the keys with a prefix end. Raises ``TypeError`` for one that is not bytes."""
        raise NotImplementedError


class TimestampedReads(Reads):
    """Read entries that are stored with their times; the methods of ``Reads`` return the values alone."""

    __slots__ = ()

    def get(self, key: bytes) -> bytes | None:
        """Return the newest value of a key, or None."""
        stored = super().get(key)
        return None if stored is None else value_of(stored)

    def get_with_timestamp(self, key: bytes) -> ValueAndTime[bytes] | None:
        """Return the newest value of a key with its time, or None."""
        stored = super().get(key)
        return None if stored is None else value_and_time(stored)

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Return the newest values of many keys, in their order."""
        return [None if stored is None else value_of(stored) for stored in super().get_many(keys)]

    def get_many_with_timestamps(self, keys: Iterable[bytes]) -> list[ValueAndTime[bytes] | None]:
        """Return the newest values of many keys with their times, in their order."""
        return [None if stored is None else value_and_time(stored) for stored in super().get_many(keys)]

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return a snapshot of the entries with ``start <= key < end`` in byte order; ``reverse`` descends."""
        return ((key, value_of(stored)) for key, stored in self._range(start, end, reverse))

    def range_with_timestamps(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, ValueAndTime[bytes]]]:
        """Return what ``range`` does, each value with its time."""
        return ((key, value_and_time(stored)) for key, stored in self._range(start, end, reverse))

    def prefix_scan_with_timestamps(
        self, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, ValueAndTime[bytes]]]:
        """Return what ``prefix_scan`` does, each value with its time."""
        return self.range_with_timestamps(prefix, self._prefix_end(prefix), reverse=reverse)
