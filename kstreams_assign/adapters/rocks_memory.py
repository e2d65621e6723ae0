"""The memory that the RocksDB databases of a process share, and how each is set up for it.

What must not be here: what a database holds (``rocksdb``), how much memory a process has (``kstreams_assign.memory``).
"""

from __future__ import annotations

import functools

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, MemtableFactory, Options, WriteBufferManager

from kstreams_assign.memory import Memory

UNFLUSHED_MAX = 4
"""In bulk: memory tables of a column family that wait to be flushed before a writer waits."""
LEVEL0_MAX = 32
"""In bulk: files of a column family that wait to be compacted before a writer waits."""

_WRITE_BUFFER_BYTES, _WRITE_BUFFER_BYTES_MIN = 8 << 20, 1 << 20


class RocksMemory:
    """Memory that all databases opened with it share: one block cache, one limit on unwritten data.

    ``write_buffer_bytes`` is for one store; a small one also writes faster, as its skip list fits the processor's
    cache. A database that would pass ``write_buffers_bytes`` in sum flushes early instead. With ``index_in_cache`` the
    indexes and filters of open files count as part of the cache, and not beside it.
    """

    def __init__(
        self,
        *,
        block_cache_bytes: int = 64 << 20,
        write_buffers_bytes: int = 256 << 20,
        write_buffer_bytes: int = _WRITE_BUFFER_BYTES,
        max_open_files: int = 128,
        index_in_cache: bool = False,
    ) -> None:
        self._index_in_cache = index_in_cache
        self._cache = Cache(block_cache_bytes)
        self._buffers = WriteBufferManager(write_buffers_bytes, False)
        self._write_buffer_bytes = write_buffer_bytes
        self._max_open_files = max_open_files

    @classmethod
    def within(cls, memory: Memory) -> RocksMemory:
        """Return the memory that a process has for its stores."""
        write_buffers = memory.rocksdb_write_buffers_bytes
        return cls(
            block_cache_bytes=memory.rocksdb_block_cache_bytes,
            write_buffers_bytes=write_buffers,
            write_buffer_bytes=min(_WRITE_BUFFER_BYTES, max(_WRITE_BUFFER_BYTES_MIN, write_buffers // 16)),
            index_in_cache=memory.limited,
        )

    def options(self, *, bulk: bool = False) -> Options:
        """For a database and for each of its column families; in ``bulk`` to be written and hardly read."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(self._write_buffer_bytes)
        options.set_max_write_buffer_number(UNFLUSHED_MAX * 2 if bulk else 3)
        options.set_atomic_flush(True)  # or a lost write-ahead log takes the offsets away, and leaves data
        options.set_allow_concurrent_memtable_write(False)  # one thread writes to a database
        options.set_max_open_files(self._max_open_files)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_stats_dump_period_sec(0)
        options.set_block_based_table_factory(self._blocks())
        options.set_level_zero_slowdown_writes_trigger(LEVEL0_MAX * 2)
        options.set_level_zero_stop_writes_trigger(LEVEL0_MAX * 3)
        if bulk:
            options.set_memtable_factory(MemtableFactory.vector())
            options.set_level_zero_file_num_compaction_trigger(LEVEL0_MAX // 2)
        return options

    def _blocks(self) -> BlockBasedOptions:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_bloom_filter(10, False)
        blocks.set_cache_index_and_filter_blocks(self._index_in_cache)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(self._index_in_cache)
        return blocks


@functools.cache
def shared_memory() -> RocksMemory:
    """The default budget of the process: 64 MiB of cache and 256 MiB of write buffers."""
    return RocksMemory()
