"""A task's stores in RocksDB, through rocksdict.

One database a task. Each store is a column family; their names and the changelog offsets stand in the default column
family (``store_layout``), so that data and offsets change in one write batch and cannot part (KIP-1035); nor do they
where all logs are lost, since all families are flushed as one. The write-ahead log is on: a process killed after
``write`` finds the batch again. It is not synced: a machine that loses power loses its tail, data and offsets alike.

``rebuild`` is for what a changelog still holds: the database is opened again for bulk writes, without the log. Memory
tables are vectors that the flush sorts in its own thread, as rocksdict holds Python's lock while it writes; when they
are full all column families are flushed as one, so a crash loses the tail of data and offsets alike. The next ``write``
flushes and goes back; that flush takes the families one by one, the offsets last, so a process that dies in it leaves
data that is ahead, over which restoring reads again.

What must not be here: when to write, what to restore, how databases are set up (``rocks_memory``). rocksdict raises
bare ``Exception`` with RocksDB's text, which ``store_faults`` turns into this package's errors.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from rocksdict import (
    AccessType,
    ColumnFamily,
    DbClosedError,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from kstreams_assign.adapters.rocks_memory import LEVEL0_MAX, UNFLUSHED_MAX, RocksMemory, shared_memory
from kstreams_assign.adapters.store_faults import BORROWED, Translation
from kstreams_assign.adapters.store_layout import (
    FORMAT,
    FORMAT_KEY,
    TIMESTAMPED,
    Held,
    changelog_key,
    family_key,
    held_in,
    identity_key,
    kind_key,
    offset_key,
    offset_value,
)
from kstreams_assign.adapters.store_range import StoreRange, last_key
from kstreams_assign.errors import StateError
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.expiry import indexed_by
from kstreams_assign.tasks.stores import Write, found_gone_back

_log = logging.getLogger(__name__)

_FAILURES = "rocksdb.background-errors"
_KEYS = "rocksdb.estimate-num-keys"
_ROOM_TRY_S = 0.002
"""In bulk: wait, with Python's lock let go, before RocksDB would make the writer wait and keep it."""

_FILES_OF_A_DATABASE = ("MANIFEST-*", "*.sst", "*.log")
_BARE: frozenset[type[BaseException]] = frozenset({Exception, RuntimeError, DbClosedError})
_RAISED: tuple[type[BaseException], ...] = (*_BARE, OSError)


class RocksTaskStores:
    """``tasks.stores.TaskStores`` on RocksDB. Open with ``open_task_stores``; used by one thread at a time.

    ``get`` and ``get_many`` may be called by others meanwhile; ``worker.global_stores`` has the rules for these.
    """

    def __init__(
        self,
        path: Path,
        store_names: Iterable[str],
        memory: RocksMemory,
        timestamped: frozenset[str] = frozenset(),
        sources: frozenset[str] = frozenset(),
        changelogs: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._memory = memory
        self._sources = sources
        self._translation = Translation(path, _BARE)
        self._reads: dict[str, Rdict] = {}
        self._handles: dict[str, ColumnFamily] = {}
        self._ranges: weakref.WeakSet[StoreRange] = weakref.WeakSet()
        self._closed = False
        self._bulk = False
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, typed as a method
        with self._translation:
            on_disk = _families_on_disk(path)
            self._db = self._opened(on_disk)
        try:
            with self._translation:
                self._held = self._load_held()
                before = set(self._held.families)
                self._agree_on_families(on_disk)
                names = set(store_names)
                self._agree_on_kinds(names & before, timestamped)
                if changelogs is not None:
                    self._agree_on_changelogs(changelogs, names)
                for name in sorted(names - self._held.families.keys()):
                    self._begin_family(name)
                self._take_handles()
                self._drop_old_indexes(names)
        except StateError:
            self.close()
            raise

    def get(self, store: str, key: bytes) -> bytes | None:
        reads = self._read_side(store)
        try:  # as `with self._translation` does, which costs as much as a fifth of the read
            value: bytes | None = reads.get(key)
        except _RAISED as error:
            self._translation.__exit__(type(error), error, None)
            raise
        return value

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._translation:
            return list(self._read_side(store).get(list(keys)) or ())

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``start <= key < end``, as they are now. Ends early when the stores are closed or wiped."""
        with self._translation:
            entries = StoreRange(self._read_side(store).iter(), start, end, reverse, self._translation)
        self._ranges.add(entries)
        return entries

    def approximate_count(self, store: str) -> int:
        """Return RocksDB's estimate: a key that was written again counts twice until a compaction."""
        with self._translation:
            return max(0, self._read_side(store).property_int_value(_KEYS) or 0)

    def offsets(self) -> Mapping[TopicPartition, int]:
        return MappingProxyType(self._held.offsets)

    def identities(self) -> Mapping[str, str]:
        return MappingProxyType(self._held.identities)

    def identify(self, identities: Mapping[str, str]) -> None:
        batch = WriteBatch(raw_mode=True)
        for topic, identity in identities.items():
            batch.put(identity_key(topic), identity.encode())
        self._apply(batch, self._unlogged if self._bulk else None)
        self._held.identities.update(identities)

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self._reopen(bulk=False)
        self._apply(self._batch(writes, offsets))
        self._held.offsets.update(offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self._reopen(bulk=True)
        self._await_room()
        self._apply(self._batch(writes, offsets), self._unlogged)
        self._held.offsets.update(offsets)

    def _batch(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> WriteBatch:
        if found := found_gone_back(offsets, self._held.offsets, self._sources):
            raise self._translation.damaged(found)
        batch = WriteBatch(raw_mode=True)
        for store, records in writes.items():
            handle = self._write_side(store)
            put, delete = batch.put, batch.delete
            for key, value in records:
                if value is None:
                    delete(key, handle)
                else:
                    put(key, value, handle)
        for partition, offset in offsets.items():
            batch.put(offset_key(partition), offset_value(offset))
        return batch

    def wipe(self) -> None:
        """Forget all data and offsets in one batch; then create the column families again, to free the space."""
        self._end_ranges()
        self._apply(self._emptying_batch())
        self._held.forget_topics(self._held.topics)
        self._drop_handles()
        with self._translation:
            for store, family in list(self._held.families.items()):
                self._begin_family(store)
                self._db.drop_column_family(family)
            self._take_handles()

    def drop(self, store: str) -> None:
        """Remove a store that is kept elsewhere now, with its changelog's offset and topic id, if it is here.

        Otherwise it would be taken up again, years later, without the deletions that the changelog has lost meanwhile.
        """
        family = self._held.families.get(store)
        if family is None:
            return
        topics = {topic for name, topic in self._held.changelogs.items() if name == store}
        batch = WriteBatch(raw_mode=True)
        for key in (family_key(store), kind_key(store), changelog_key(store), *self._held.places(topics)):
            batch.delete(key)
        self._apply(batch)
        self._drop_handles()
        self._held.forget_store(store)
        self._held.forget_topics(topics)
        with self._translation:
            self._db.drop_column_family(family)
            self._take_handles()

    def close(self) -> None:
        """Let go of the database and its lock.

        Never raises: what could not be flushed is in a log, its own or the changelog.
        """
        if self._closed:
            return
        try:
            self._let_go()
        except StateError as error:  # nothing is lost by it, and a caller with a reason to close reports that reason
            _log.info("closing: %s", error)

    def _let_go(self) -> None:
        """Close the database, whatever it says to that."""
        self._closed = True
        self._end_ranges()
        with self._translation, ExitStack() as steps:
            steps.callback(self._drop_database)
            steps.callback(self._drop_handles)
            if self._bulk:
                self._flush()

    def _drop_database(self) -> None:
        database = self._db
        del self._db
        database.close()

    def _flush(self) -> None:
        """Bring everything to the disk, the offsets last: this flushes one column family after the other."""
        for family in self._reads.values():
            family.flush()
        self._db.flush()

    def _reopen(self, *, bulk: bool) -> None:
        """Change how the database is open; it is closed if that fails."""
        if self._bulk is bulk or self._closed:
            return
        if not self._bulk:
            with self._translation:
                self._flush()  # or opening would replay the log
        self._let_go()
        self._bulk = bulk
        with self._translation:
            self._db = self._opened(self._held.families.values())
            self._closed = False
            self._take_handles()

    def _opened(self, families: Iterable[str]) -> Rdict:
        of_families = {family: self._memory.options(bulk=self._bulk) for family in sorted(families)}
        return Rdict(str(self._path), self._memory.options(bulk=self._bulk), of_families)

    def _await_room(self) -> None:
        """Wait until earlier writes are flushed and compacted far enough, or cannot be: the next write says why."""
        with self._translation:
            while any(map(_crowded, self._reads.values())) and not self._db.property_int_value(_FAILURES):
                threading.Event().wait(_ROOM_TRY_S)

    def _read_side(self, store: str) -> Rdict:
        family = self._reads.get(store)
        if family is None:
            raise self._no_such(store)
        return family

    def _write_side(self, store: str) -> ColumnFamily:
        handle = self._handles.get(store)
        if handle is None:
            raise self._no_such(store)
        return handle

    def _no_such(self, store: str) -> StateError:
        return StateError(f"the store at {self._path} " + ("is closed" if self._closed else f"has no {store!r}"))

    def _apply(self, batch: WriteBatch, options: WriteOptions | None = None) -> None:
        if self._closed:
            raise StateError(f"the store at {self._path} is closed")
        with self._translation:
            self._db.write(batch, options)

    def _begin_family(self, store: str) -> None:
        """Create an empty family under a new name. It counts once the default family names it."""
        family = f"{store}.{secrets.token_hex(8)}"
        self._db.create_column_family(family, self._memory.options(bulk=self._bulk)).close()
        self._put(family_key(store), family.encode())
        self._held.families[store] = family

    def _put(self, key: bytes, value: bytes) -> None:
        """Into the default family, and the log: in bulk, too, as what was made or dropped is on the disk at once."""
        batch = WriteBatch(raw_mode=True)
        batch.put(key, value)
        self._apply(batch)

    def _take_handles(self) -> None:
        for store, family in self._held.families.items():
            self._reads[store] = self._db.get_column_family(family)
            self._handles[store] = self._db.get_column_family_handle(family)

    def _drop_handles(self) -> None:
        """A handle, a column family or an iterator that lives on keeps the database open and locked."""
        self._handles.clear()
        reads, self._reads = self._reads, {}
        with self._translation, ExitStack() as closing:
            for read in reads.values():
                closing.callback(_close_when_read, read)

    def _end_ranges(self) -> None:
        for entries in list(self._ranges):
            entries.close()

    def _load_held(self) -> Held:
        if self._db.get(FORMAT_KEY) is None:
            self._put(FORMAT_KEY, FORMAT)
        return _held_in(self._db, self._translation)

    def _agree_on_families(self, on_disk: set[str]) -> None:
        """Without the family that a store was in last its data is lost, and the offsets are not.

        A family without a name was not begun in time, or not dropped.
        """
        for store, family in self._held.families.items():
            if family not in on_disk:
                raise self._translation.damaged(f"has lost the data of {store!r}: its MANIFEST knows no {family}")
        for family in on_disk.difference(self._held.families.values()):
            self._db.drop_column_family(family)

    def _drop_old_indexes(self, names: set[str]) -> None:
        """A store that is written without its index of times leaves that behind: it is built again when it is used."""
        for index in [name for name in self._held.families if name not in names and indexed_by(name) in names]:
            self.drop(index)

    def _agree_on_kinds(self, before: Iterable[str], timestamped: frozenset[str]) -> None:
        """Values of another layout would be misread, so a store declared otherwise than it was written is of no use."""
        for name in before:
            if (name in self._held.timestamped) is not (name in timestamped):
                wants, has = ("with", "without") if name in timestamped else ("without", "with")
                raise self._translation.damaged(f"has {name!r} {has} timestamps, and it is declared {wants} them now")
        for name in timestamped - self._held.timestamped:
            self._put(kind_key(name), TIMESTAMPED)

    def _agree_on_changelogs(self, declared: Mapping[str, str], names: set[str]) -> None:
        """Note which changelog each store has. Remove offsets of other data, and stores whose changelog was taken."""
        held = self._held
        self._note_changelogs(held.known_changelogs(declared), outdated=())
        valid = held.valid_changelogs(declared, names)
        for store in held.with_indexes(held.sharing_changelogs(held.changelogs.keys() - names - valid.keys())):
            self.drop(store)
        now = {**valid, **{name: topic for name, topic in declared.items() if name in names}}
        self._note_changelogs(now, held.topics.difference(valid.values()))

    def _note_changelogs(self, changelogs: Mapping[str, str], outdated: Collection[str]) -> None:
        held = self._held
        if changelogs == held.changelogs and not outdated:
            return
        batch = WriteBatch(raw_mode=True)
        for key in (*map(changelog_key, held.changelogs.keys() - changelogs.keys()), *held.places(outdated)):
            batch.delete(key)
        for name, topic in changelogs.items():
            batch.put(changelog_key(name), topic.encode())
        self._apply(batch)
        held.changelogs = dict(changelogs)
        held.forget_topics(outdated)

    def _emptying_batch(self) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for key in self._held.places(self._held.topics):
            batch.delete(key)
        with self._translation:
            for store, handle in self._handles.items():
                last = last_key(self._reads[store].iter())
                if last is not None:
                    batch.delete_range(b"", last + b"\x00", handle)
        return batch


def open_task_stores(
    path: Path,
    store_names: Iterable[str],
    *,
    timestamped: frozenset[str] = frozenset(),
    memory: RocksMemory | None = None,
    sources: frozenset[str] = frozenset(),
    changelogs: Mapping[str, str] | None = None,
) -> RocksTaskStores:
    """Open, or make, the database of one task with these stores. Values of ``timestamped`` ones begin with a timestamp.

    ``sources`` are the topics whose offsets may go back (``tasks.stores``). ``changelogs``: the topics of the task's
    stores that have a changelog, also of those in memory; offsets that are not of their data are forgotten. None: all
    offsets stay. A store that an older topology left in it stays, unless another store has its changelog; then it is
    removed. Raises ``StoreDamaged`` when it cannot be read (then: discard the directory and restore), ``StateError``
    when it is open already or the disk refuses.
    """
    translation = Translation(path, _BARE)
    with translation:
        if path.is_symlink() and not path.exists():
            raise StateError(
                f"the store at {path} is a link to nothing; bring back {path.readlink()} or remove the link"
            )
        path.mkdir(parents=True, exist_ok=True)
        _has_database(path, translation)
    return RocksTaskStores(path, store_names, memory or shared_memory(), timestamped, sources, changelogs)


def read_offsets(path: Path, *, memory: RocksMemory | None = None) -> Mapping[TopicPartition, int]:
    """Return the next changelog offsets in a task directory that no process has open; changes nothing there.

    Empty for a directory without a database. Raises ``StoreDamaged`` and ``StateError`` as ``open_task_stores``.
    """
    return _read_held(path, memory).offsets


def read_unlogged(path: Path) -> list[str]:
    """Return the stores in a task directory of which no changelog is known; otherwise as ``read_offsets``."""
    held = _read_held(path, None)
    known = held.known_changelogs({})
    return sorted(name for name in held.families.keys() - known.keys() if indexed_by(name) is None)


def _read_held(path: Path, memory: RocksMemory | None) -> Held:
    translation = Translation(path, _BARE)
    with translation:
        if not _has_database(path, translation):
            return Held()
        with _keeping_age(path):
            database = Rdict(str(path), (memory or shared_memory()).options(), {}, AccessType.read_only())
            try:
                return _held_in(database, translation)
            finally:
                database.close()


@contextmanager
def _keeping_age(path: Path) -> Iterator[None]:
    """Let a read leave the times of a database, from which its age counts: rocksdict writes its own file each time."""
    files = [(file, file.stat().st_mtime_ns) for file in path.glob("rocksdict-config.json")]
    try:
        yield
    finally:
        for file, written_ns in files:
            with suppress(OSError):  # of another user
                os.utime(file, ns=(written_ns, written_ns))


def _has_database(path: Path, translation: Translation) -> bool:
    """Without its CURRENT file RocksDB would begin a new database over the rest: report damage instead."""
    if (path / "CURRENT").exists():
        return True
    left = sorted(file.name for pattern in _FILES_OF_A_DATABASE for file in path.glob(pattern))
    if left:
        raise translation.damaged(f"lacks its file CURRENT, but there are {', '.join(left[:3])}")
    return False


def _families_on_disk(path: Path) -> set[str]:
    """RocksDB wants every column family of a database opened; ``default`` comes by itself."""
    if not (path / "CURRENT").exists():
        return set()
    return {family for family in Rdict.list_cf(str(path), Options(raw_mode=True)) if family != "default"}


def _close_when_read(family: Rdict) -> None:
    """Close a column family. rocksdict refuses while another thread reads it, which ends soon; no other read begins."""
    while True:
        try:
            family.close()
        except RuntimeError as error:
            if not BORROWED.search(str(error)):
                raise
        else:
            return
        threading.Event().wait(_ROOM_TRY_S)


def _crowded(family: Rdict) -> bool:
    unflushed = family.property_int_value("rocksdb.num-immutable-mem-table") or 0
    level0 = family.property_value("rocksdb.num-files-at-level0") or "0"
    return unflushed >= UNFLUSHED_MAX or int(level0) >= LEVEL0_MAX


def _held_in(database: Rdict, translation: Translation) -> Held:
    entries = StoreRange(database.iter(), None, None, False, translation)
    try:
        return held_in(entries, translation)
    finally:
        entries.close()  # or the error's traceback keeps the database open and locked
