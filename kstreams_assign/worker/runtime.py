"""``Engine``: the composition root. Wires adapters, state, restore, processing and membership, and runs them.

Three threads beside the Kafka clients' own: membership (joins, keeps alive), processing (the labour, commits) and
restore (stores and changelogs), and two small ones: upkeep (status, cleaner) and early probing. The first that fails ends the others; its
error comes out of ``run``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    CommittedOffsets,
    ConfluentChangelogReader,
    InputConsumer,
)
from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores, read_offsets
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, NotHere
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Pacing, Restorer
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums, sums_at_start
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.state.opening import open_state
from kstreams_assign.worker.committing import record_producer
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog, Listener
from kstreams_assign.worker.http.parts import Parts
from kstreams_assign.worker.http.server import StatusServer
from kstreams_assign.worker.labour import Facts, Functions, Labour
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.lookup import Location, Lookup
from kstreams_assign.worker.membership import Membership, group_client
from kstreams_assign.worker.pace import LongRestores, paces
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.restoring import RestoreThread
from kstreams_assign.worker.task import Flow, Subtopology, topology_shape

STATUS_INTERVAL_S = 0.2
CLEANER_INTERVAL_MS = 10_000
LOOKUP_TIMEOUT_S = 5.0
FIRST_ANSWER_S = 30.0
LEAVE_TIMEOUT_S = 5.0
PACING = Pacing(progress_interval_ms=200, standby_ends_interval_ms=1_000, standby_budget_records=0)
RESTORE_BATCH_RECORDS = 2_000  # a bigger batch in one write would hold up the running tasks


Wish = Callable[[Membership], None]
"""What somebody outside wants of the membership."""


@dataclass(frozen=True, slots=True)
class _Local:
    """This process's state on its own disk, and who may touch it."""

    directory: StateDirectory
    sums: OffsetSums
    mutex: ReportMutex


class Engine:
    """One member of the application's group, with its tasks, standbys and warm-ups; ``labour`` does the work on records.

    ``run`` blocks until ``close`` or an error; one Engine runs once. ``on_event`` is given what happens
    (``worker.events``). Making one checks the settings and locks the state directory; raises ``ConfigError`` and
    ``StateDirectoryLocked``.
    """

    def __init__(self, config: Config, flows: Sequence[Flow], labour: Labour, on_event: Listener | None) -> None:
        self._config = config
        self._flows = tuple(flows)
        self._shape = topology_shape(self._flows)
        self._labour = labour
        directory, self._wiped = open_state(config, clock_ms=monotonic_ms, wall_ms=wall_ms)
        mutex = ReportMutex(clock_ms=monotonic_ms, hold_ms=hold_limit_ms(config.max_poll_interval_ms))
        self._local = _Local(directory, sums_at_start(directory, self._offsets_on_disk), mutex)
        self.log = EventLog(str(directory.process_id), on_event)
        """Everything that happens; whoever works with this engine tells it here too, as the listener hears one at a time."""
        self._ending = threading.Event()
        self._wishes: queue.SimpleQueue[Wish] = queue.SimpleQueue()
        self._lookup: Lookup | None = None

    @property
    def process_id(self) -> UUID:
        """The identity of this process in the group; kept in the state directory across restarts."""
        return self._local.directory.process_id

    def run(self) -> None:
        """Join the group and work until ``close``. Raises what ended it: the user's error, or one of this package's."""
        try:
            if not self._ending.is_set():
                self._run()
        finally:
            self._local.directory.close()
            self.log.emit("closed")

    def _run(self) -> None:
        self._tell_of_the_directory()
        address = self._config.http_address
        http = None if address is None else StatusServer(address)
        try:
            self._refuse_missing_sinks()
            running = _Running(
                self._config, self._flows, self._shape, self._labour, self._local, self.log, self._ending
            )
            if http is not None:
                http.start(running.parts.status, self.log)
            self._lookup = running.lookup
            running.run(self._wishes)
        finally:
            self._lookup = None
            if http is not None:
                http.stop()

    def _tell_of_the_directory(self) -> None:
        if warnings := self._local.directory.warnings:
            self.log.emit("warnings", warnings=[*warnings])
        if self._wiped:
            self.log.emit("state_wiped", tasks=[str(task) for task in self._wiped])

    def _refuse_missing_sinks(self) -> None:
        """Found out now, or each commit would fail: no record can be written to a topic that is not there."""
        sinks = {sink for flow in self._flows for sink in flow.sinks}
        there = first_look(self._config, sinks, FIRST_ANSWER_S)
        if missing := sorted(sinks - there.keys()):
            raise ConfigError(f"topology: sink topics that do not exist: {', '.join(missing)}; create them first")

    def close(self) -> None:
        """End ``run``: commit, close the tasks, leave the group. From any thread or a signal handler; does not wait."""
        self._ending.set()

    def rejoin(self, reason: str) -> None:
        """Ask the group for a rebalance; kept if it cannot be asked for at this moment."""
        self._wishes.put(lambda membership: membership.rejoin(reason))

    def drain(self) -> None:
        """Leave without silence: the group warms this member's tasks up elsewhere, takes them, and then ``run`` ends.

        Where nobody can take them (it is alone, or a Java member leads) it leaves as ``close`` does. From any thread.
        """
        self._wishes.put(Membership.drain)

    def locate(self, store: str, key: bytes) -> Location:
        """Which process has a key, by the host maps of the last assignment; endpoints are ``application_server``.

        From any thread. Raises ``NotHere`` while ``run`` does not, ``ConfigError`` for a store that the topology lacks.
        """
        return self._looking_up().locate(store, key)

    def read(self, store: str, key: bytes, *, allow_standby: bool = False, timeout_s: float = 5.0) -> bytes | None:
        """The newest committed value of a key, None if it has none; with ``allow_standby`` also from a copy, maybe behind.

        From any thread. Raises ``NotHere`` where the key is not this process's, naming who has it, and as ``locate`` does.
        """
        return self._looking_up().read(store, key, allow_standby=allow_standby, timeout_s=timeout_s)

    def _looking_up(self) -> Lookup:
        if self._lookup is None:
            raise NotHere("the worker does not run (yet, or any more)")
        return self._lookup

    def _offsets_on_disk(self, task: TaskId, path: Path) -> Mapping[TopicPartition, int]:
        """How far a closed task is, in the changelogs that this topology has. Read once: a join must not wait for it."""
        if task.subtopology >= len(self._shape.subtopologies):
            return {}
        changelogs = set(self._shape.changelogs(self._config.application_id, task).values())
        return {p: offset for p, offset in read_offsets(path).items() if p in changelogs}


def first_look(config: Config, topics: Iterable[str], timeout_s: float) -> Mapping[str, int]:
    """Partition counts of those topics that exist. Raises ``BrokerUnavailable``, naming the setting: it may just be wrong."""
    try:
        return ClusterAdmin(config.bootstrap_servers, config.client).partition_counts(topics, timeout_s)
    except BrokerUnavailable as cause:
        told = f"bootstrap_servers = {config.bootstrap_servers!r}: nobody answers ({cause})"
        raise BrokerUnavailable(told) from cause


class Worker(Engine):
    """A stream processor: an ``Engine`` whose records go to the functions of its topology."""

    def __init__(self, config: Config, topology: Sequence[Subtopology], *, on_event: Listener | None = None) -> None:
        functions = Functions([sub.process for sub in topology], config.buffered_records_max)
        super().__init__(config, [sub.flow for sub in topology], functions, on_event)


class _Running:
    """Everything that lives from ``run`` to ``close``."""

    def __init__(
        self,
        config: Config,
        flows: Sequence[Flow],
        shape: TopologyShape,
        labour: Labour,
        local: _Local,
        log: EventLog,
        ending: threading.Event,
    ) -> None:
        self._config = config
        self._shape = shape
        self._local = local
        self._log = log
        self._ending = ending
        self._stopped = threading.Event()
        self._failures: list[BaseException] = []
        self._long = LongRestores(config.acceptable_recovery_lag)
        servers, client, group_id = config.bootstrap_servers, config.client, config.application_id
        self._admin = ClusterAdmin(servers, client)
        self._reader = ConfluentChangelogReader(
            servers,
            client,
            group_id=group_id,
            admin=self._admin,
            max_records=RESTORE_BATCH_RECORDS,
            read_committed=config.exactly_once,
        )
        self._committed = CommittedOffsets(servers, client, group_id=group_id, stable=config.exactly_once)
        self._inputs = InputConsumer(
            servers, client, group_id=group_id, admin=self._admin, read_committed=config.exactly_once
        )
        self._producer = record_producer(config, local.directory.process_id)
        self._processor = Processor(
            config, flows, shape, labour, self._inputs, self._producer, local.directory, local.sums, log
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
        leading = Leading(config, shape, process, self._admin, log)
        self._early = EarlyProbing(config, process, local.sums, self._admin, leading.end_offset_sums, self._rejoin, log)
        self._membership = Membership(
            config,
            shape,
            process,
            self._processor,
            leading,
            local.sums,
            local.mutex,
            log,
            lambda membership: group_client(config, shape, membership),
            self._early.adopted,
            self._ending.set,
        )
        self.lookup = Lookup(
            shape, self._partition_counts, lambda: self._membership.hosts, self._processor, self._restoring
        )
        self._counts: Mapping[str, int] | None = None
        self._processor.connect(self._membership, self._restoring)
        self._restoring.receiver = self._processor
        self.parts = Parts(
            config,
            shape,
            process,
            self._membership,
            self._early,
            self._processor,
            self._restoring,
            log,
            ending.is_set,
            lambda: next(iter(self._failures), None),
        )
        labour.connect(self._processor, self._facts)

    def run(self, wishes: queue.SimpleQueue[Wish]) -> None:
        """Start the threads, wait for the end, and stop them in the order that loses nothing."""
        restoring = self._start("restore", self._restoring.run)
        processing = self._start("processing", self._processor.run)
        membership = self._start("membership", self._membership.run)
        upkeep = self._start("upkeep", lambda: self._upkeep(wishes))
        early = self._start("early-probing", lambda: self._early.run(self._ending))
        try:
            self._ending.wait()
        finally:  # also after Ctrl-C, which comes out of the wait
            self._ending.set()
            self._membership.close()
            membership.join()
            self._processor.stop()
            processing.join()
            self._processor.settle()
            self._restoring.stop()
            restoring.join()
            self._processor.settle()
            self._restoring.settle()
            self._stopped.set()
            upkeep.join()
            early.join()
            self._disconnect()
        if self._failures:
            raise self._failures[0]

    def _start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(work,), name=f"kstreams-{name}", daemon=True)
        thread.start()
        return thread

    def _guarded(self, work: Callable[[], None]) -> None:
        """Any error, a user's bug too, ends the worker and comes out of ``run``; it is kept, not handled, here."""
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  # raised again by run()
            self._failures.append(failure)
            self._ending.set()

    def _disconnect(self) -> None:
        try:
            self._membership.leave(LEAVE_TIMEOUT_S)
        except BrokerError as cause:
            self._log.emit("leave_failed", reason=str(cause))
        self._committed.close()
        self._inputs.close()
        self._reader.close()
        self._producer.close()

    def _rejoin(self, reason: str) -> None:
        self._membership.rejoin(reason)

    def _partition_counts(self) -> Mapping[str, int]:
        if self._counts is None:
            self._counts = self._admin.partition_counts(self._shape.source_topics, LOOKUP_TIMEOUT_S)
        return self._counts

    def _open_stores(self, task: TaskId) -> RocksTaskStores:
        names = [store.name for store in self._shape.subtopologies[task.subtopology].stores]
        return open_task_stores(self._local.directory.task_path(task), names)

    def _positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Committed offsets; where there are none, what ``auto_offset_reset`` says."""
        committed = self._committed.read(partitions, LOOKUP_TIMEOUT_S)
        fresh = [partition for partition in partitions if partition not in committed]
        if fresh:
            earliest = self._config.auto_offset_reset == "earliest"
            look_up = self._admin.start_offsets if earliest else self._admin.end_offsets
            committed.update(look_up(fresh, LOOKUP_TIMEOUT_S))
        return committed

    # --- upkeep ---------------------------------------------------------------------

    def _upkeep(self, wishes: queue.SimpleQueue[Wish]) -> None:
        local, delay_ms = self._local, self._config.state_cleanup_delay_ms
        cleaner = Cleaner(local.directory, local.mutex, local.sums, state_cleanup_delay_ms=delay_ms)
        cleaner.empty_trash()
        next_clean_ms = monotonic_ms() + CLEANER_INTERVAL_MS
        while not self._stopped.wait(STATUS_INTERVAL_S):
            self._tell_status()
            while not wishes.empty():
                wishes.get()(self._membership)
            if monotonic_ms() >= next_clean_ms:
                next_clean_ms = monotonic_ms() + CLEANER_INTERVAL_MS
                cleaner.run()

    def _tell_status(self) -> None:
        facts = self._facts()
        self._log.emit(
            "status",
            generation=facts.generation,
            next_probe_ms=self._membership.next_probe_ms,
            records_total=self._processor.records_total,
            tasks=facts.tasks,
            restoring=(told := paces(self._restoring.progress(), monotonic_ms())),
        )
        if (line := self._long.line(told, monotonic_ms())) is not None:
            self._log.emit("restoring", **line)

    def _facts(self) -> Facts:
        """The lag of a stopped task is None: its state cannot be worked with, so all may have to be read."""
        lags, stops, roles = self._restoring.lags(), self._restoring.stopped(), self._membership.roles()
        stopped = {task for task, stop in stops.items() if not stop.trying}
        return Facts(
            self._membership.generation,
            {
                str(task): {
                    "role": roles.get(task, "leaving"),
                    "state": "stopped" if task in stopped else state.value,
                    "lag": None if task in stopped else lags.get(task, 0),
                }
                for task, state in self._processor.states().items()
            },
        )
