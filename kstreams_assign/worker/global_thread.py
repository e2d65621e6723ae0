"""The thread that keeps the global tables: it reads their topics, outside of the group, into a database for each.

It carries out what ``engine.global_tables`` decides. A table is restored as a standby is, by ``restore.loop``: all
partitions of its topic go into one store, and their next offsets are kept beside the data.

What must not live here: when a table may be read or is built again; how it is read (``global_stores``).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import assert_never

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.engine import global_tables as machine
from kstreams_assign.engine.global_tables import Effect, Event, GlobalTables
from kstreams_assign.errors import BrokerError, BrokerUnavailable, StateError
from kstreams_assign.events import (
    GlobalTableReadingEvent,
    GlobalTableReadyEvent,
    GlobalTableRebuiltEvent,
    GlobalTableStoppedEvent,
)
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore import loop
from kstreams_assign.restore.loop import Pacing, Purpose, Restorer
from kstreams_assign.restore.ports import ChangelogReader
from kstreams_assign.state.global_folders import GlobalFolders
from kstreams_assign.status.views import GlobalTableView
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.global_stores import NOT_READ_YET, TableReads, TableStores
from kstreams_assign.worker.global_views import ReadOnlyKeyValueStore, view_of
from kstreams_assign.worker.restoring import rest_s

_log = logging.getLogger(__name__)

STEP_S = 0.1
"""How long a step waits for records. New records end the wait, and nothing else is urgent."""
COUNT_RETRY_S = 0.5
COUNT_MS, COUNT_MISSED_MS = 5_000, 1_000
"""How often partitions are counted, as a topic may grow; and while a topic does not exist."""
REPORT_MS = 10_000
PACING = Pacing(progress_interval_ms=0, standby_ends_interval_ms=1_000, standby_budget_records=1 << 62)

Count = Callable[[], Mapping[str, int]]
"""Topic -> number of partitions, of the tables' topics that exist. Raises ``BrokerError``."""


class TableReaders:
    """What reads the tables, for functions and other threads. It exists before the worker runs, and after it."""

    def __init__(self, tables: Sequence[GlobalTable]) -> None:
        self.tables = tables
        self.failures: queue.SimpleQueue[tuple[str, TaskStores, StateError]] = queue.SimpleQueue()
        self.reads = {table.name: self._reads(table.name) for table in tables}
        self.views: Mapping[str, ReadOnlyKeyValueStore] = {
            table.name: view_of(table, self.reads[table.name]) for table in tables
        }

    def _reads(self, name: str) -> TableReads:
        return TableReads(name, lambda stores, error: self.failures.put((name, stores, error)))


class GlobalThread:
    """Keeps the tables. ``view`` and ``await_ready`` are for any thread, everything else is the thread's own."""

    def __init__(
        self,
        tables: Sequence[GlobalTable],
        readers: TableReaders,
        reader: ChangelogReader,
        folders: GlobalFolders,
        open_stores: Callable[[GlobalTable], TaskStores],
        count: Count,
        log: EventLog,
    ) -> None:
        self._tables = {table.name: table for table in tables}
        self._readers = readers
        self._engine = GlobalTables()
        self._names = [table.name for table in tables]
        self._restorer = Restorer(
            reader,
            now_ms=monotonic_ms,
            pacing=PACING,
            name_of=lambda task: f"global table {self._names[task.partition]}",
        )
        self._folders = folders
        self._open_stores = open_stores
        self._count = count
        self._log = log
        self._stores: dict[str, TableStores] = {}
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._counted_ms = self._reported_ms = 0
        self._applied_total = 0

    # --- any thread ---------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether every table has been complete since the start."""
        return self._ready.is_set()

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until every table is complete; return whether they are."""
        return self._ready.wait(timeout_s)

    def view(self) -> tuple[GlobalTableView, ...]:
        """Return each table, for status."""
        return tuple(
            GlobalTableView(name, self._tables[name].topic, entry.ready, entry.behind(), _reason(entry))
            for name, entry in self._engine.entries().items()
        )

    def stop(self) -> None:
        """End ``run``, which then closes the databases."""
        self._stopping.set()

    # --- the thread -----------------------------------------------------------------------

    def run(self) -> None:
        """Until ``stop``. Raises ``BrokerError`` for what waiting does not mend."""
        try:
            self._begin()
            while not self._stopping.is_set():
                self._turn()
        finally:
            for name in self._tables:
                self._take(name)
                self._close(name)

    def _begin(self) -> None:
        for name in self._tables:
            self._readers.reads[name].refuse(NOT_READ_YET)
        counts = self._first_counts()
        for name, table in self._tables.items():
            self._handle(machine.Added(name, counts.get(table.topic, 0) or 1))

    def _first_counts(self) -> Mapping[str, int]:
        """Count the partitions; the topics existed a moment ago, so brokers that are away will come back."""
        while True:
            try:
                return self._count()
            except BrokerUnavailable as error:
                _log.warning("global tables wait for the broker and try again: %s", error)
            if self._stopping.wait(COUNT_RETRY_S):
                return {}

    def _turn(self) -> None:
        now_ms = monotonic_ms()
        self._take_failures()
        if (due_ms := self._engine.due_ms()) is not None and due_ms <= now_ms:
            self._handle(machine.Woke())
        self._count_partitions(now_ms)
        began_s = time.thread_time()
        for event in self._restorer.step(STEP_S):
            self._hear(event)
        self._report(now_ms)
        news = self._restorer.applied_total != self._applied_total
        self._applied_total = self._restorer.applied_total
        worked_s = time.thread_time() - began_s
        self._stopping.wait(rest_s(worked_s, 0.0, restoring=False, news=news, running=self.ready))

    def _take_failures(self) -> None:
        """Take the readers' errors of databases that are open; one that was closed meanwhile has been replaced."""
        while not self._readers.failures.empty():
            name, database, error = self._readers.failures.get_nowait()
            if name in self._stores and self._stores[name].database is database:
                self._handle(machine.ReadFailed(name, error))

    def _count_partitions(self, now_ms: int) -> None:
        interval_ms = COUNT_MISSED_MS if self._engine.missed else COUNT_MS
        if now_ms - self._counted_ms < interval_ms:
            return
        self._counted_ms = now_ms
        with suppress(BrokerError):  # asked again; the restore loop reports that no broker answers
            counts = self._count()
            for name, table in self._tables.items():
                self._handle(machine.Counted(name, counts.get(table.topic, 0)))

    def _report(self, now_ms: int) -> None:
        """Now and then, of the tables that are being read to their goals."""
        if now_ms - self._reported_ms < REPORT_MS or self._engine.all_ready:
            return
        reading = [
            (name, entry.progress)
            for name, entry in self._engine.entries().items()
            if entry.progress is not None and not entry.ready
        ]
        for name, progress in reading:
            self._reported_ms = now_ms
            rate, left_ms = progress.offsets_per_s, progress.left_ms
            self._log.emit(
                GlobalTableReadingEvent(
                    table=name,
                    topic=self._tables[name].topic,
                    remaining=progress.remaining,
                    offsets_per_s=None if rate is None else round(rate),
                    left_s=None if left_ms is None else round(left_ms / 1000),
                )
            )

    # --- what the engine hears and decides -------------------------------------------------

    def _hear(self, event: loop.Event) -> None:
        assert not isinstance(event, loop.Restored), "tables are read as standbys are"
        name = self._names[event.task.partition]
        match event:
            case loop.Progress(_, _, progress):
                self._handle(machine.Progressed(name, progress))
            case loop.Missing():
                self._handle(machine.TopicMissed(name, self._tables[name].topic))
            case loop.StartedOver(_, reason):
                self._handle(machine.StartedOver(name, reason))
            case loop.Damaged(_, stores, error):
                if stores is self._stores.get(name):  # or it was closed by an event before this one
                    self._handle(machine.StoresFailed(name, error))
            case _:
                assert_never(event)

    def _handle(self, event: Event) -> None:
        for effect in self._engine.handle(event, monotonic_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901  # a case for each effect
        match effect:
            case machine.OpenDatabase(name):
                self._open(name)
            case machine.CloseDatabase(name):
                self._close(name)
            case machine.DiscardFolder(name, cause):
                self._discard(name, cause)
            case machine.ReadTopic(name, partitions):
                topic = self._tables[name].topic
                store_of = {TopicPartition(topic, number): name for number in range(partitions)}
                self._restorer.add(self._task(name), self._stores[name], store_of, Purpose.STANDBY)
            case machine.TakeFromRestorer(name):
                self._take(name)
            case machine.AllowReads(name):
                self._allow(name)
            case machine.RefuseReads(name, reason):
                self._readers.reads[name].refuse(reason)
            case machine.AnnounceReady(name, offsets):
                self._log.emit(GlobalTableReadyEvent(table=name, topic=self._tables[name].topic, offsets=offsets))
                if self._engine.all_ready:
                    self._ready.set()
            case machine.AnnounceStopped(name, reason, retry_ms):
                self._log.emit(GlobalTableStoppedEvent(table=name, reason=reason, retry_ms=retry_ms))
            case machine.AnnounceRebuilt(name, reason):
                self._log.emit(GlobalTableRebuiltEvent(table=name, reason=reason))
            case _:
                assert_never(effect)

    def _task(self, name: str) -> TaskId:
        """Return the restore loop's name of a table: Kafka's own is ``-1_-1`` (``GlobalProcessorContextImpl``)."""
        return TaskId(-1, self._names.index(name))

    def _open(self, name: str) -> None:
        try:
            stores = self._open_stores(self._tables[name])
        except StateError as error:
            self._handle(machine.OpenFailed(name, error))
            return
        self._stores[name] = TableStores(stores, self._readers.reads[name])
        self._handle(machine.Opened(name))

    def _take(self, name: str) -> None:
        self._restorer.remove(self._task(name))

    def _close(self, name: str) -> None:
        if (stores := self._stores.pop(name, None)) is not None:
            stores.close()

    def _allow(self, name: str) -> None:
        try:
            self._stores[name].allow_reads()
        except StateError as error:
            self._handle(machine.ReadFailed(name, error))
        else:
            self._handle(machine.ReadsAllowed(name))

    def _discard(self, name: str, cause: StateError) -> None:
        try:
            self._folders.discard(name, str(cause))
        except StateError as error:
            self._handle(machine.DiscardFailed(name, error))
        else:
            self._handle(machine.Discarded(name, cause))


def _reason(entry: machine.TableEntry) -> str:
    """Return why a table is not kept up to date; empty if it is."""
    return "" if entry.stop is None or not entry.stop.reported else entry.stop.reason
