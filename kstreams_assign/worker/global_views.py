"""A global table as the user's code sees it, in a function and from other threads. It is read-only.

What must not live here: what a database is (``global_stores``), when a table may be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kstreams_assign.errors import ConfigError
from kstreams_assign.tasks.prefixes import prefix_end
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.given import BYTES, BYTES_OR_NONE
from kstreams_assign.worker.global_stores import TableReads
from kstreams_assign.worker.reads import Reads, TimestampedReads


class ReadOnlyKeyValueStore(Reads):
    """Read a global table (Kafka: ``ReadOnlyKeyValueStore``).

    Any thread may read. Values are as new as this process has read them; two reads may differ, also in one call of a
    function. Keys are bytes; another type raises ``TypeError``. Every method raises ``StateError`` while the table
    cannot be read: before it is complete, while it is built again, and when the worker is not running. Do not catch it
    in a function: the task then pauses and goes on from its last commit.
    """

    __slots__ = ("_name", "_reads")

    def __init__(self, reads: TableReads) -> None:
        self._name = reads.name
        self._reads = reads

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        if type(key) is not bytes:
            self._check("key", (key,), BYTES)
        return self._reads.get(key)

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """Return the values of many keys, in their order, with one read of the disk."""
        keys = list(keys)
        self._check("key", keys, BYTES)
        return self._reads.get_many(keys)

    def approximate_count(self) -> int:
        """Return an estimate of the number of entries (Kafka: ``approximateNumEntries``); never negative."""
        return self._reads.approximate_count()

    def _range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        self._check("an end of the range", (start, end), BYTES_OR_NONE)
        return self._reads.range(start, end, reverse=reverse)

    def _prefix_end(self, prefix: bytes) -> bytes | None:
        self._check("prefix", (prefix,), BYTES)
        return prefix_end(prefix)

    def _check(self, what: str, values: Iterable[object], allowed: frozenset[type]) -> None:
        for value in values:
            if type(value) not in allowed:
                names = "bytes" if allowed is BYTES else "bytes or None"
                raise TypeError(
                    f"global table {self._name}: {what} is {type(value).__name__} {value!r:.60}: must be {names}"
                )


class ReadOnlyTimestampedKeyValueStore(TimestampedReads, ReadOnlyKeyValueStore):
    """Read a global table that keeps each value's time (Kafka: a ``ReadOnlyKeyValueStore`` of ``ValueAndTimestamp``).

    The methods of ``ReadOnlyKeyValueStore`` work here with the values alone.
    """

    __slots__ = ()


Views = Mapping[str, ReadOnlyKeyValueStore]
"""The global tables of a worker, by name."""

NO_TABLES: Views = MappingProxyType({})


def view_of(table: GlobalTable, reads: TableReads) -> ReadOnlyKeyValueStore:
    """Return the view of a table."""
    return (ReadOnlyTimestampedKeyValueStore if table.timestamped else ReadOnlyKeyValueStore)(reads)


def global_table(views: Views, name: str) -> ReadOnlyKeyValueStore:
    """Return a view. Raises ``ConfigError`` for a table that is not declared."""
    view = views.get(name)
    if view is None:
        raise ConfigError(f"global table {name!r}: no such table; global_tables declares {', '.join(views) or 'none'}")
    return view


def timestamped_global_table(views: Views, name: str) -> ReadOnlyTimestampedKeyValueStore:
    """Return a view of a table that was declared with ``timestamped``. Raises ``ConfigError`` for another."""
    view = global_table(views, name)
    if not isinstance(view, ReadOnlyTimestampedKeyValueStore):
        raise ConfigError(
            f"global table {name!r}: keeps no timestamps; declare it as GlobalTable({name!r}, ..., timestamped=True)"
        )
    return view
