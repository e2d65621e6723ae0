"""Connect the thread that keeps the global tables with the brokers and the disk. The start of work waits for it.

What must not live here: what the thread does (``global_thread``).
"""

from __future__ import annotations

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, StableEnds
from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.client_settings import read_committed
from kstreams_assign.config import Config
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.global_folders import GlobalFolders
from kstreams_assign.status.views import GlobalTableView
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.global_thread import GlobalThread, TableReaders

BATCH_RECORDS = 2_000  # a bigger batch in one write would hold up the running tasks
COUNT_TIMEOUT_S = 5.0
WAIT_S = 0.05


class KeptTables:
    """The global tables of a running worker; without any there is no thread and no client."""

    def __init__(
        self,
        config: Config,
        readers: TableReaders,
        admin: ClusterAdmin,
        directory: StateDirectory,
        memory: RocksMemory,
        buffer_bytes: int,
        log: EventLog,
        ending: EndRequest,
    ) -> None:
        tables = readers.tables
        self._memory = memory
        self._ending = ending
        self._folders = GlobalFolders(directory.path, directory.trash)
        self._folders.retire({table.name for table in tables}, config.state_cleanup_dir_max_age_ms, wall_ms())
        self._reader: ConfluentChangelogReader | None = None
        self._thread: GlobalThread | None = None
        if not tables:
            return
        topics = [table.topic for table in tables]
        committed = config.exactly_once or read_committed(config.consumer)
        self._reader = ConfluentChangelogReader(
            config.bootstrap_servers,
            config.consumer,
            group_id=config.application_id,
            admin=admin,
            max_records=BATCH_RECORDS,
            read_committed=committed,
            limits=StableEnds(lambda asked: admin.stable_end_offsets(asked, COUNT_TIMEOUT_S)) if committed else None,
            timestamped=frozenset(table.topic for table in tables if table.timestamped),
            buffer_bytes=buffer_bytes,
        )
        self._thread = GlobalThread(
            tables,
            readers,
            self._reader,
            self._folders,
            self._open,
            lambda: admin.partition_counts(topics, COUNT_TIMEOUT_S),
            log,
        )

    @property
    def ready(self) -> bool:
        """Whether every table has been complete since the start, so that tasks may run."""
        return self._thread is None or self._thread.ready

    def view(self) -> tuple[GlobalTableView, ...]:
        """Return each table, for status."""
        return () if self._thread is None else self._thread.view()

    def await_ready(self) -> None:
        """Wait until every table is complete, or the worker ends."""
        while not (self._thread is None or self._ending.is_set() or self._thread.await_ready(WAIT_S)):
            pass

    def run(self) -> None:
        """Keep the tables until ``stop``; return at once if there are none."""
        if self._thread is not None:
            self._thread.run()

    def stop(self) -> None:
        """Make ``run`` close the databases and return."""
        if self._thread is not None:
            self._thread.stop()

    def close(self) -> None:
        """Close the client, after the thread has ended."""
        if self._reader is not None:
            self._reader.close()

    def _open(self, table: GlobalTable) -> RocksTaskStores:
        timestamped = frozenset({table.name} if table.timestamped else ())
        path = self._folders.path_of(table.name)
        return open_task_stores(path, [table.name], timestamped=timestamped, memory=self._memory)
