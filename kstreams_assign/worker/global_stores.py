"""The database of a global table, shared by the one thread that writes it and all threads that read it.

``TableReads`` is the side of the readers, and lives as long as the worker. ``TableStores`` is the side of the writer,
and lives as long as the database is open; it withdraws the table from readers before it empties or closes the database.
What must not live here: when a table may be read (``engine.global_tables``).

The idea: RocksDB may be read while another thread writes, so a read takes no lock, which would cost a third of it. What
a reader must not see is a database that is being emptied or was opened again: a read that meets one is refused
*afterwards*, as each refusal comes before the change, and is counted (``_lives``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from kstreams_assign.errors import StateError
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.stores import TaskStores, Write

NOT_READ_YET = "it is not read to its end yet"
EMPTIED = "it does not fit its topic, and is read again from the start"
CLOSED = "the worker is not running"


class TableReads:
    """Reads one table from any thread. ``failed`` gets a database and its error.

    Every read raises ``StateError`` while the table is refused. It is never a ``StoreDamaged``: the table is damaged,
    and not the stores of the task that reads it.
    """

    def __init__(self, name: str, failed: Callable[[TaskStores, StateError], None]) -> None:
        self.name = name
        self._failed = failed
        self._stores: TaskStores | None = None
        self._refused: str | None = CLOSED
        self._lives = 0
        self._guard = threading.Lock()

    # --- the thread that writes --------------------------------------------------------

    @property
    def allowed(self) -> bool:
        """Whether the table may be read."""
        return self._refused is None

    def allow(self, stores: TaskStores) -> None:
        """Let readers read this database."""
        with self._guard:
            self._stores, self._refused = stores, None

    def refuse(self, reason: str) -> None:
        """Refuse every read from now on, also those under way."""
        with self._guard:
            self._stores, self._refused = None, reason
            self._lives += 1

    # --- any thread --------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        lives, stores = self._lives, self._stores
        if stores is None:
            self._raise()
        try:
            value = stores.get(self.name, key)
        except StateError as error:
            self._fail(stores, error)
        if self._lives != lives:
            self._raise()
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        lives, stores = self._lives, self._stores
        if stores is None:
            self._raise()
        try:
            values = stores.get_many(self.name, keys) if keys else []
        except StateError as error:
            self._fail(stores, error)
        if self._lives != lives:
            self._raise()
        return values

    def approximate_count(self) -> int:
        lives, stores = self._lives, self._stores
        if stores is None:
            self._raise()
        try:
            count = stores.approximate_count(self.name)
        except StateError as error:
            self._fail(stores, error)
        if self._lives != lives:
            self._raise()
        return count

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._guard:  # or the range could begin in a database that is being closed, and keep it locked
            stores, lives = self._stores, self._lives
            if stores is None:
                self._raise()
            try:
                entries = stores.range(self.name, start, end, reverse=reverse)
            except StateError as error:
                self._failed(stores, error)
                raise StateError(f"global table {self.name} cannot be read: {error}") from error
        return self._entries(stores, entries, lives)

    def _entries(
        self, stores: TaskStores, entries: Iterator[tuple[bytes, bytes]], lives: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pass the entries on; a range of a database that is emptied or closed meanwhile would just end early."""
        try:
            yield from entries
        except StateError as error:
            self._fail(stores, error)
        if self._lives != lives:
            raise StateError(
                f"global table {self.name}: was emptied or closed while a range of it was read; read the range again"
            )

    def _raise(self) -> NoReturn:
        reason = self._refused or "it is ready now; read again"
        raise StateError(f"global table {self.name} cannot be read: {reason}")

    def _fail(self, stores: TaskStores, error: StateError) -> NoReturn:
        """Report an error of this database, unless it was closed meanwhile, which is no error of it."""
        with self._guard:
            is_news = self._stores is stores
        if is_news:
            self._failed(stores, error)
        raise StateError(f"global table {self.name} cannot be read: {self._refused or error}") from error


class TableStores:
    """The open database of one table (``tasks.stores.TaskStores``). Used by the thread that writes."""

    def __init__(self, stores: TaskStores, reads: TableReads) -> None:
        self.database = stores
        self._reads = reads

    def allow_reads(self) -> None:
        """Let readers read. Raises ``StateError`` if the database cannot be prepared for that."""
        self.database.write({}, {})  # a database in bulk mode is opened again by it, and not later, under the readers
        self._reads.allow(self.database)

    def get(self, store: str, key: bytes) -> bytes | None:
        return self.database.get(store, key)

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.database.get_many(store, keys)

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.database.range(store, start, end, reverse=reverse)

    def approximate_count(self, store: str) -> int:
        return self.database.approximate_count(store)

    def offsets(self) -> Mapping[TopicPartition, int]:
        return self.database.offsets()

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.database.write(writes, offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        """Write in bulk, but not under readers: the database would be closed for a moment."""
        (self.database.write if self._reads.allowed else self.database.rebuild)(writes, offsets)

    def identities(self) -> Mapping[str, str]:
        return self.database.identities()

    def identify(self, identities: Mapping[str, str]) -> None:
        self.database.identify(identities)

    def wipe(self) -> None:
        self._reads.refuse(EMPTIED)
        self.database.wipe()

    def close(self) -> None:
        if self._reads.allowed:
            self._reads.refuse(CLOSED)
        self.database.close()
