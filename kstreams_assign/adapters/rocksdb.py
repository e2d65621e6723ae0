"""A task's stores in RocksDB, through rocksdict: the only file that imports it.

One database a task. Each store is a column family (``s.<name>``); the changelog offsets stand in the default column
family, so that data and offsets change in one write batch and cannot part (KIP-1035). The write-ahead log is on: a
process killed after ``write`` finds the batch again. It is not synced: a machine that loses power loses its tail,
data and offsets alike.

What must not be here: when to write, what to restore. rocksdict raises bare ``Exception`` with RocksDB's text;
``_VERDICTS`` turns the text into this package's errors.
"""

from __future__ import annotations

import functools
import logging
import re
import struct
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType, TracebackType

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteBufferManager,
)

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.ports import Write

_log = logging.getLogger(__name__)

_STORE_PREFIX = "s."
_FORMAT_KEY, _FORMAT = b"format", b"1"
_OFFSET_KEY_PREFIX = b"o"
_PARTITION = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")
_RANGE_CHUNK_RECORDS = 1_000

_VERDICTS: tuple[tuple[re.Pattern[str], type[StateError], str], ...] = (
    (re.compile("lock hold by current process|While lock file"), StateError, "is open already"),
    (re.compile("^Corruption"), StoreDamaged, "is damaged"),
    (re.compile("No such file or directory"), StoreDamaged, "lacks a file"),
    (re.compile("No space left on device"), StateError, "has no space left on its disk"),
    (re.compile("already closed"), StateError, "is closed"),
    (re.compile(""), StateError, "was refused by RocksDB"),
)
"""Text of a RocksDB error -> our error, first match wins."""


class _Translation:
    """``with translation:`` raises rocksdict's errors as ours, and lets every precise error through."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is Exception or kind is DbClosedError:
            raise self.verdict(str(error)) from error

    def verdict(self, text: str) -> StateError:
        found = ((error, says) for pattern, error, says in _VERDICTS if pattern.search(text))
        error, says = next(found)
        return error(f"the store at {self._path} {says}: {text}")

    def damaged(self, says: str) -> StoreDamaged:
        return StoreDamaged(f"the store at {self._path} {says}")


class RocksMemory:
    """Memory that all databases opened with it share: one block cache, one limit on unwritten data.

    ``write_buffer_bytes`` is for one store; a small one also writes faster, as its skip list fits the processor's
    cache. A database that would pass ``write_buffers_bytes`` in sum flushes early instead.
    """

    def __init__(
        self,
        *,
        block_cache_bytes: int = 64 << 20,
        write_buffers_bytes: int = 256 << 20,
        write_buffer_bytes: int = 8 << 20,
        max_open_files: int = 128,
    ) -> None:
        self._cache = Cache(block_cache_bytes)
        self._buffers = WriteBufferManager(write_buffers_bytes, False)
        self._write_buffer_bytes = write_buffer_bytes
        self._max_open_files = max_open_files

    def options(self) -> Options:
        """For a database and for each of its column families."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(self._write_buffer_bytes)
        options.set_max_write_buffer_number(3)
        options.set_allow_concurrent_memtable_write(False)  # one thread writes to a database
        options.set_max_open_files(self._max_open_files)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_stats_dump_period_sec(0)
        options.set_block_based_table_factory(self._blocks())
        return options

    def _blocks(self) -> BlockBasedOptions:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_bloom_filter(10, False)
        return blocks


@functools.cache
def shared_memory() -> RocksMemory:
    """The budget of everyone who names none: 64 MiB of cache and 256 MiB of write buffers for the process."""
    return RocksMemory()


class RocksTaskStores:
    """``restore.ports.TaskStores`` on RocksDB. Open with ``open_task_stores``; used by one thread at a time."""

    def __init__(self, path: Path, store_names: Iterable[str], memory: RocksMemory) -> None:
        self._path = path
        self._memory = memory
        self._translation = _Translation(path)
        self._reads: dict[str, Rdict] = {}
        self._handles: dict[str, ColumnFamily] = {}
        self._ranges: weakref.WeakSet[_Range] = weakref.WeakSet()
        self._closed = False
        with self._translation:
            families = _families_on_disk(path) | {_STORE_PREFIX + name for name in store_names}
            self._db = Rdict(str(path), memory.options(), {family: memory.options() for family in sorted(families)})
        try:
            with self._translation:
                self._take_handles(families)
                self._offsets = self._load_offsets()
        except StateError:
            self.close()
            raise

    def get(self, store: str, key: bytes) -> bytes | None:
        with self._translation:
            found: bytes | None = self._read_side(store).get(key)
            return found

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._translation:
            return list(self._read_side(store).get(list(keys)) or ())

    def range(
        self, store: str, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``start <= key < end``, as they are now. Ends early when the stores are closed or wiped."""
        with self._translation:
            found = _Range(self._read_side(store).iter(), start, end, reverse, self._translation)
        self._ranges.add(found)
        return found

    def offsets(self) -> Mapping[TopicPartition, int]:
        return MappingProxyType(self._offsets)

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
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
            batch.put(_offset_key(partition), _OFFSET.pack(offset))
        self._apply(batch)
        self._offsets.update(offsets)

    def wipe(self) -> None:
        """Forget all data and offsets in one batch; then make the column families anew, to have the space back."""
        self._end_ranges()
        self._apply(self._emptying_batch())
        self._offsets.clear()
        families = list(self._handles)
        self._drop_handles()
        with self._translation:
            for family in families:
                self._db.drop_column_family(family)
                self._db.create_column_family(family, self._memory.options()).close()
            self._take_handles(families)

    def close(self) -> None:
        """Let go of the database and its lock. Never raises: what could not be flushed is in the write-ahead log."""
        if self._closed:
            return
        self._closed = True
        self._end_ranges()
        try:
            with self._translation:
                self._drop_handles()
                self._db.close()
        except StateError as error:
            _log.warning("closing: %s", error)
        del self._db

    def _read_side(self, store: str) -> Rdict:
        found = self._reads.get(_STORE_PREFIX + store)
        if found is None:
            raise self._no_such(store)
        return found

    def _write_side(self, store: str) -> ColumnFamily:
        found = self._handles.get(_STORE_PREFIX + store)
        if found is None:
            raise self._no_such(store)
        return found

    def _no_such(self, store: str) -> StateError:
        return StateError(f"the store at {self._path} " + ("is closed" if self._closed else f"has no {store!r}"))

    def _apply(self, batch: WriteBatch) -> None:
        if self._closed:
            raise StateError(f"the store at {self._path} is closed")
        with self._translation:
            self._db.write(batch)

    def _take_handles(self, families: Iterable[str]) -> None:
        for family in families:
            self._reads[family] = self._db.get_column_family(family)
            self._handles[family] = self._db.get_column_family_handle(family)

    def _drop_handles(self) -> None:
        """A handle, a column family or an iterator that lives on keeps the database open and locked."""
        self._handles.clear()
        reads, self._reads = self._reads, {}
        while reads:
            reads.popitem()[1].close()

    def _end_ranges(self) -> None:
        for found in list(self._ranges):
            found.close()

    def _load_offsets(self) -> dict[TopicPartition, int]:
        if self._db.get(_FORMAT_KEY) is None:
            self._db.put(_FORMAT_KEY, _FORMAT)
        return _offsets_in(self._db, self._translation)

    def _emptying_batch(self) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for partition in self._offsets:
            batch.delete(_offset_key(partition))
        with self._translation:
            for family, handle in self._handles.items():
                last = _last_key(self._reads[family])
                if last is not None:
                    batch.delete_range(b"", last + b"\x00", handle)
        return batch


class _Range(Iterator[tuple[bytes, bytes]]):
    """One pass over a store, in chunks. rocksdict's own iterators take a damaged block for the end; this raises."""

    def __init__(
        self, cursor: RdictIter, start: bytes | None, end: bytes | None, reverse: bool, translation: _Translation
    ) -> None:
        self._cursor: RdictIter | None = cursor
        self._translation = translation
        self._entries = self._backward(cursor, start, end) if reverse else self._forward(cursor, start, end)
        self._chunk: Iterator[tuple[bytes, bytes]] = iter(())

    def __next__(self) -> tuple[bytes, bytes]:
        entry = next(self._chunk, None)
        return self._after_chunk() if entry is None else entry

    def _after_chunk(self) -> tuple[bytes, bytes]:
        with self._translation:
            chunk = list(islice(self._entries, _RANGE_CHUNK_RECORDS))
            if self._cursor is not None and not chunk:
                self._cursor.status()
        if not chunk:
            self.close()
        self._chunk = iter(chunk)
        return next(self._chunk)

    def close(self) -> None:
        """Let go of the database; what is left is not read."""
        self._cursor, self._entries, self._chunk = None, iter(()), iter(())

    @staticmethod
    def _forward(cursor: RdictIter, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        cursor.seek(start or b"")
        while cursor.valid():
            key = cursor.key()
            if end is not None and key >= end:
                return
            yield key, cursor.value()
            cursor.next()

    @staticmethod
    def _backward(cursor: RdictIter, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if end is None:
            cursor.seek_to_last()
        else:
            cursor.seek_for_prev(end)
        while cursor.valid():
            key = cursor.key()
            if start is not None and key < start:
                return
            if key != end:
                yield key, cursor.value()
            cursor.prev()


def open_task_stores(path: Path, store_names: Iterable[str], *, memory: RocksMemory | None = None) -> RocksTaskStores:
    """Open, or make, the database of one task with these stores.

    Stores that an older topology left in it stay as they are. Raises ``StoreDamaged`` when it cannot be read (then:
    discard the directory and restore), ``StateError`` when it is open already or the disk refuses.
    """
    path.mkdir(parents=True, exist_ok=True)
    return RocksTaskStores(path, store_names, memory or shared_memory())


def read_offsets(path: Path, *, memory: RocksMemory | None = None) -> Mapping[TopicPartition, int]:
    """Next changelog offsets in a task directory that nobody has open; changes nothing there.

    Empty for a directory without a database. Raises ``StoreDamaged`` and ``StateError`` as ``open_task_stores``.
    """
    if not (path / "CURRENT").exists():
        return {}
    translation = _Translation(path)
    with translation:
        database = Rdict(str(path), (memory or shared_memory()).options(), {}, AccessType.read_only())
        try:
            return _offsets_in(database, translation)
        finally:
            database.close()


def _families_on_disk(path: Path) -> set[str]:
    """RocksDB wants every column family of a database opened; ``default`` comes by itself."""
    if not (path / "CURRENT").exists():
        return set()
    return {family for family in Rdict.list_cf(str(path), Options(raw_mode=True)) if family != "default"}


def _offset_key(partition: TopicPartition) -> bytes:
    return _OFFSET_KEY_PREFIX + _PARTITION.pack(partition.partition) + partition.topic.encode()


def _last_key(database: Rdict) -> bytes | None:
    cursor = database.iter()
    cursor.seek_to_last()
    if cursor.valid():
        key: bytes = cursor.key()
        return key
    cursor.status()
    return None


def _offsets_in(database: Rdict, translation: _Translation) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for key, value in _Range(database.iter(), None, None, False, translation):
        if key == _FORMAT_KEY and value != _FORMAT:
            raise translation.damaged(f"has layout {value!r}; this version reads {_FORMAT!r}")
        if key.startswith(_OFFSET_KEY_PREFIX):
            (number,) = _PARTITION.unpack_from(key, 1)
            (offsets[TopicPartition(key[5:].decode(), number)],) = _OFFSET.unpack(value)
    return offsets
