"""``Working``: everything that lives from a worker's ``run`` to its ``close``, wired together.

There are three main threads beside the Kafka clients' own: membership (joins, heartbeats), processing (the user's
functions, commits) and restore (stores and changelogs). Three small ones report status and clean, empty the trash, and
speak to the other members. One more keeps global tables, if there are any; the main threads start once these are
complete. The first thread that fails ends the others; ``run`` raises its error.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    CommittedOffsets,
    ConfluentChangelogReader,
    InputConsumer,
    RecordDeletions,
    SourceLimits,
)
from kstreams_assign.adapters.kafka_python import CommittedMetadata
from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.engine.membership import RESTART_ANNOUNCED_WITHIN_MS
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import (
    LeaveFailedEvent,
    StateDirMadeAnewEvent,
    StatusEvent,
    TaskStatus,
)
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Pacing, Restorer
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.members import Members
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.status.values import LEAVING
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.internal import (
    add_repartition_counts,
    missing_sources,
    resolve_patterns,
    subscription_pattern,
)
from kstreams_assign.worker.answering import QueryAnswers
from kstreams_assign.worker.committing import record_producer
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.emptying import Emptying
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.fresh_ends import FreshEnds
from kstreams_assign.worker.global_thread import TableReaders
from kstreams_assign.worker.keeping_tables import KeptTables
from kstreams_assign.worker.labour import Facts, Labour, reported_lag
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.load_meter import LoadMeter
from kstreams_assign.worker.locating import endpoint_of
from kstreams_assign.worker.lookup import Lookup, Topology
from kstreams_assign.worker.memberships import (
    AnyMember,
    Request,
    announce_restart,
    connect_member,
    drain,
)
from kstreams_assign.worker.opening_stores import open_stores
from kstreams_assign.worker.pace import LongRestores, paces
from kstreams_assign.worker.parts import Parts
from kstreams_assign.worker.pauses import PausedEnds
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.purging import Purging
from kstreams_assign.worker.restoring import RestoreThread
from kstreams_assign.worker.start_positions import StartPositions
from kstreams_assign.worker.state_requests import StateRequests
from kstreams_assign.worker.state_sizes import StateSizes, measure_disk
from kstreams_assign.worker.waiting import WaitingTasks, look_of

STATUS_INTERVAL_S = 0.2
CLEANER_INTERVAL_MS = 10_000
LOOKUP_TIMEOUT_S = 5.0
LIMIT_TIMEOUT_S = 2.0
"""All restores wait while the committed offset of a source topic is looked up."""
LEAVE_TIMEOUT_S = 5.0
LAST_HEARTBEAT_S = 1.0
"""How long leaving the group waits for the answer to a heartbeat; brokers that are away answer none."""
PACING = Pacing(progress_interval_ms=200, standby_ends_interval_ms=1_000, standby_budget_records=0)
RESTORE_BATCH_RECORDS = 2_000  # a bigger batch in one write would hold up the running tasks


@dataclass(frozen=True, slots=True)
class Local:
    """This process's state on disk, and the mutex that guards it."""

    directory: StateDirectory
    sums: OffsetSums
    mutex: ReportMutex


class Working:
    """Everything that lives from ``run`` to ``close``."""

    def __init__(
        self,
        config: Config,
        flows: Sequence[Flow],
        shape: TopologyShape,
        labour: Labour,
        admin: ClusterAdmin,
        local: Local,
        log: EventLog,
        ending: EndRequest,
        readers: TableReaders,
    ) -> None:
        self._config = config
        self._shape = shape
        self._local = local
        self._rocks_memory = RocksMemory.within(config.memory)
        reader_bytes = config.memory.restore_buffer_max_bytes // (2 if readers.tables else 1)
        self._tables = KeptTables(
            config, readers, admin, local.directory, self._rocks_memory, reader_bytes, log, ending
        )
        self._log = log
        self._ending = ending
        self._stopped = threading.Event()
        self._keeping_place: threading.Thread | None = None
        self._failures: list[BaseException] = []
        self._requested: list[Request] = []
        self._leaves_at_ms: int | None = None
        self._long = LongRestores(config.acceptable_recovery_lag)
        servers, client, group_id = config.bootstrap_servers, config.client, config.application_id
        fetching = config.consumer
        self._admin = admin
        committed = CommittedOffsets(servers, client, group_id=group_id, stable=config.exactly_once)
        self._committed = committed
        self._reader = ConfluentChangelogReader(
            servers,
            fetching,
            group_id=group_id,
            admin=admin,
            max_records=RESTORE_BATCH_RECORDS,
            read_committed=config.exactly_once,
            limits=SourceLimits(shape.source_changelogs, lambda asked: committed.read(asked, LIMIT_TIMEOUT_S)),
            timestamped=shape.timestamped_changelogs(group_id),
            bare=shape.bare_changelogs(group_id),
            buffer_bytes=reader_bytes,
        )
        self._metadata = CommittedMetadata(
            servers, client, group_id=group_id, timeout_s=LOOKUP_TIMEOUT_S, stable=config.exactly_once
        )
        self._inputs = InputConsumer(
            servers,
            fetching,
            group_id=group_id,
            read_committed=config.exactly_once,
            max_bytes=config.batch_bytes_max,
            buffer_bytes=config.memory.input_buffer_max_bytes,
        )
        self._producer = record_producer(config, local.directory.process_id)
        self._processor = Processor(
            config,
            flows,
            shape,
            labour,
            self._inputs,
            self._producer,
            local.directory,
            local.sums,
            self._purging(log),
            log,
        )
        self._restoring = RestoreThread(
            shape,
            group_id,
            Restorer(
                self._reader,
                now_ms=monotonic_ms,
                pacing=replace(PACING, caught_up=config.acceptable_recovery_lag),
            ),
            self._open_stores,
            self._positions,
            local.directory,
            local.sums,
            log,
        )
        process = local.directory.process_id
        leading = Leading(config, shape, process, admin, committed, log, lambda: self._restoring.restored_per_s)
        self._sizes = StateSizes(local.directory)
        self._load_meter = LoadMeter(
            config.balance_by,
            shape,
            lambda: self._processor.input_meter.progress,
            lambda: self._sizes.bytes_by_task,
        )
        self._early = EarlyProbing(config, process, local.sums, admin, leading.end_offset_sums, self._rejoin, log)
        self._membership: AnyMember
        self._membership, self._talk = connect_member(
            config,
            shape,
            process,
            self._processor,
            leading,
            self._early,
            Members(local.directory.path, process),
            local.sums,
            local.mutex,
            admin,
            log,
            self._restoring.lags,
            lambda: measure_disk(local.directory),
            self._ending.set,
            lambda: self._load_meter.loads,
        )
        self._starts = StartPositions(config, shape.repartition_topics, admin, committed, self._membership)
        self.lookup = Lookup(self._topology, lambda: self._membership.hosts, self._processor, self._restoring)
        self._ends = FreshEnds(lambda asked: admin.end_offsets(asked, LOOKUP_TIMEOUT_S))
        self.answers = QueryAnswers(
            group_id,
            shape,
            self.lookup,
            self._processor,
            self._restoring,
            self._ends,
            lambda: self._membership.group_generation,
            self._membership.lease_left_s,
            ending.is_set,
        )
        self._known: tuple[tuple[int | None, int | None], Topology] | None = None
        self._emptying = Emptying(local.directory.trash, self._guarded)
        self._waiting = WaitingTasks(group_id, servers, look_of(config, self._admin, log, LOOKUP_TIMEOUT_S), log)
        self._processor.global_tables = readers.views
        self._processor.connect(self._membership, self._restoring, self._starts.lose)
        self._processor.pauses.where = self._where
        self._asked = StateRequests(local.directory.path, self._processor, wall_ms)
        self._paused_ends = PausedEnds(self._processor.pauses, admin, monotonic_ms)
        self._restoring.receiver = self._processor
        self.parts = Parts(
            config,
            shape,
            process,
            self._membership,
            self._early,
            self._processor,
            self._restoring,
            self._waiting,
            self._sizes,
            labour,
            self._tables,
            log,
            ending.is_set,
            lambda: next(iter(self._failures), None),
        )
        labour.connect(self._processor, self._facts)

    def run(self, requests: queue.SimpleQueue[Request], operation: Callable[[], str | None]) -> None:
        """Complete the global tables, then work in the group until the end.

        ``operation`` returns how to leave the group.
        """
        upkeep = self._start("upkeep", lambda: self._upkeep(requests))
        keeping = self._start("global-tables", self._tables.run)
        works = False
        try:
            self._tables.await_ready()
            works = not self._ending.is_set()
            if works:
                self._work()
        finally:  # also after Ctrl-C, which comes out of a wait
            if not works:
                self._processor.commits.close()
                self._processor.close()
                self._restoring.settle()
            self._ending.set()
            self._tables.stop()
            keeping.join()
            self._stopped.set()
            upkeep.join()
            if self._keeping_place is not None:
                self._keeping_place.join(LAST_HEARTBEAT_S)
            try:
                self._disconnect(operation())
            finally:  # after the group was left, which is not to wait for it
                self._emptying.close()
        if self._failures:
            raise self._failures[0]

    def _work(self) -> None:
        """Start the threads, wait for the end, and stop them in an order that loses nothing."""
        restoring = self._start("restore", self._restoring.run)
        processing = self._start("processing", self._processor.run)
        membership = self._start("membership", self._membership.run)
        speaking = self._start("progress", lambda: self._talk(self._ending))
        try:
            self._ending.wait()
        finally:
            self._ending.set()
            self._guarded(lambda: self._membership.await_shutdown(membership, processing.is_alive))
            self._membership.close()
            membership.join()
            self._keeping_place = self._start("membership", lambda: self._membership.keep_place(self._stopped))
            self._processor.stop()
            processing.join()
            self._processor.settle()
            self._restoring.stop()
            restoring.join()
            self._processor.settle()
            self._restoring.settle()
            self._processor.close()  # it releases the folders of stores that came back so late
            speaking.join()

    def _start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(work,), name=f"kstreams-{name}", daemon=True)
        thread.start()
        return thread

    def _guarded(self, work: Callable[[], None]) -> None:
        """Keep any error, also of the user's code, and end the worker; ``run`` raises it."""
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  # raised again by run()
            self._failures.append(failure)
            self._ending.set()

    def _disconnect(self, operation: str | None) -> None:
        try:
            self._membership.leave(LEAVE_TIMEOUT_S, operation)
        except BrokerError as cause:
            self._log.emit(LeaveFailedEvent(reason=str(cause)))
        self._ends.close()
        self._waiting.close()
        self._committed.close()
        self._metadata.close()
        self._inputs.close()
        self._reader.close()
        self._producer.close()
        self._tables.close()

    def _purging(self, log: EventLog) -> Purging:
        config, topics = self._config, self._shape.repartition_topics
        deletions = RecordDeletions(config.bootstrap_servers, config.client)
        return Purging(topics, config.repartition_purge_interval_ms, deletions, monotonic_ms, log)

    @property
    def processor(self) -> Processor:
        """The processing loop."""
        return self._processor

    def _where(self, task: TaskId) -> str | None:
        return endpoint_of(self._shape.subtopologies[task.subtopology], task, self._membership.hosts[0])

    def _rejoin(self, reason: str) -> None:
        self._membership.rejoin(reason)

    def _topology(self) -> Topology:
        """Return the topology as of this generation: a new one begins when a topic grows or appears.

        In a streams group a new epoch begins then, with the same assignment where no task of this member changes.
        """
        generation = self._membership.generation, self._membership.group_generation
        if self._known is None or self._known[0] != generation:
            shape, counts = self._sources()
            if missing_sources(shape, counts):
                return shape, counts
            self._known = generation, (shape, add_repartition_counts(shape, counts))
        return self._known[1]

    def _sources(self) -> Topology:
        if subscription_pattern(self._shape) is None:
            return self._shape, self._admin.partition_counts(self._shape.source_topics, LOOKUP_TIMEOUT_S)
        counts = self._admin.topics(LOOKUP_TIMEOUT_S)
        return resolve_patterns(self._shape, self._config.application_id, counts), counts

    def _open_stores(self, task: TaskId) -> TaskStores:
        application = self._config.application_id
        return open_stores(self._local.directory, self._shape, application, task, self._rocks_memory)

    def _positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Position]:
        """Return committed offsets; for partitions without one, where input begins."""
        offsets = self._committed.read(partitions, LOOKUP_TIMEOUT_S)
        metadata = self._metadata.read(offsets)
        if missing := self._starts.missing(partitions, offsets):
            offsets.update(self._starts.resolve(missing, LOOKUP_TIMEOUT_S))
        return {p: Position(offset, metadata.get(p, "")) for p, offset in offsets.items()}

    def _upkeep(self, requests: queue.SimpleQueue[Request]) -> None:
        local, delay_ms = self._local, self._config.state_cleanup_delay_ms
        cleaner = Cleaner(
            local.directory,
            local.mutex,
            local.sums,
            state_cleanup_delay_ms=delay_ms,
            on_recreated=lambda: self._log.emit(StateDirMadeAnewEvent(path=str(local.directory.path))),
            empty_trash=self._emptying.ask,
        )
        cleaner.empty_trash()
        self._asked.start()
        self._committed.connect()
        self._metadata.connect()
        next_clean_ms = monotonic_ms() + CLEANER_INTERVAL_MS
        while not self._stopped.wait(STATUS_INTERVAL_S):
            self._report_status()
            self._sizes.turn()
            self._load_meter.turn()
            self._paused_ends.turn()
            self._asked.turn()
            if self._config.exactly_once:
                paused = self._processor.paused
                inputs = {p: at for p, at in self._processor.input_meter.progress.items() if at.task not in paused}
                self._waiting.turn(self._restoring.progress(), inputs, self._restoring.unanswered(), monotonic_ms())
            self._take_requests(requests)
            if monotonic_ms() >= next_clean_ms:
                next_clean_ms = monotonic_ms() + CLEANER_INTERVAL_MS
                cleaner.run()
        self._emptying.ask()  # what was moved there since

    def _take_requests(self, requests: queue.SimpleQueue[Request]) -> None:
        """Carry out what other threads want of the membership, once it is at work."""
        while not requests.empty():
            self._requested.append(requests.get())
        if self._tables.ready:
            asked, self._requested = self._requested, []
            for request in asked:
                request(self._membership)
            if announce_restart in asked and self._leaves_at_ms is None:
                self._leaves_at_ms = monotonic_ms() + RESTART_ANNOUNCED_WITHIN_MS
        elif drain in self._requested or announce_restart in self._requested:
            self._ending.set()  # it waits for global tables and has no tasks to move
        if self._leaves_at_ms is not None and monotonic_ms() >= self._leaves_at_ms:
            self._ending.set()  # the group has not answered

    def _report_status(self) -> None:
        facts = self._facts()
        status = StatusEvent(
            generation=facts.generation,
            next_probe_ms=self._membership.next_probe_ms,
            records_total=self._processor.feeding.records_total,
            tasks=facts.tasks,
            restoring=paces(self._restoring.progress(), monotonic_ms()),
        )
        self._log.emit(status)
        if (long := self._long.due(status.restoring, monotonic_ms())) is not None:
            self._log.emit(long)

    def _facts(self) -> Facts:
        """Return generation and tasks; a stopped task has no lag, as its whole changelog may have to be read."""
        lags, stops, roles = self._restoring.lags(), self._restoring.stopped(), self._membership.roles()
        stopped = {task for task, stop in stops.items() if not stop.trying}
        return Facts(
            self._membership.generation,
            {
                str(task): TaskStatus(
                    role=roles.get(task, LEAVING),
                    state="stopped" if task in stopped else state.value,
                    lag=None if task in stopped else reported_lag(state, lags.get(task)),
                )
                for task, state in self._processor.states().items()
            },
        )
