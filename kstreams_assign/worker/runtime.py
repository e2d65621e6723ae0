"""``Runtime``: a worker from outside. It checks settings and cluster, and runs ``Working`` until the end."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.container_memory import container_memory_bytes
from kstreams_assign.adapters.rocksdb import read_offsets
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.events import (
    ClosedEvent,
    EventListener,
    StateWipedEvent,
    WarningsEvent,
)
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.state.lags import sums_at_start
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.state.opening import open_state
from kstreams_assign.status.server import StatusServer
from kstreams_assign.topology.changelog_settings import refuse_too_few_replicas
from kstreams_assign.topology.flows import Flow, bind_flows, refuse_endless_letters, topology_shape
from kstreams_assign.topology.global_tables import GlobalTable, checked_global_tables
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.first_look import (
    FIRST_ANSWER_S,
    TopicLimits,
    refuse_changelogs_of_other_kinds,
    refuse_missing_global_topics,
    refuse_missing_sinks,
    refuse_settings_of_new_changelogs,
)
from kstreams_assign.worker.global_thread import TableReaders
from kstreams_assign.worker.global_views import (
    ReadOnlyKeyValueStore,
    ReadOnlyTimestampedKeyValueStore,
    global_table,
    timestamped_global_table,
)
from kstreams_assign.worker.labour import Labour, error_text
from kstreams_assign.worker.memberships import (
    AnyMember,
    Request,
    announce_restart,
    drain,
    refuse_shutdown,
    shut_application_down,
)
from kstreams_assign.worker.only_run import OnlyRun
from kstreams_assign.worker.pauses import change_pauses
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.querying import Queries
from kstreams_assign.worker.reading import KeyReads
from kstreams_assign.worker.share import apply_share, scarce_memory
from kstreams_assign.worker.user_functions import refuse_no_listener
from kstreams_assign.worker.working import Local, Working


class Runtime(KeyReads):
    """Be one member of the application's group, with its tasks, standbys and warm-ups; ``labour`` processes records.

    ``run`` blocks until ``close`` or an error; a ``Runtime`` runs once. The constructor checks the settings and locks
    the state directory. ``first_look`` is called before the member joins, once brokers answer. Raises ``ConfigError``
    and ``StateDirectoryLocked``.
    """

    def __init__(
        self,
        config: Config,
        flows: Sequence[Flow],
        labour: Labour,
        on_event: EventListener | None,
        global_tables: Sequence[GlobalTable] = (),
        first_look: Callable[[ClusterAdmin], None] | None = None,
    ) -> None:
        refuse_no_listener(on_event)
        config, on_event = apply_share(config, on_event)
        self._config = config
        self._flows = bind_flows(flows, config.application_id)
        self._shape = topology_shape(self._flows)
        refuse_wrong_topology(self._shape, config.application_id)
        refuse_endless_letters(self._flows, config.errors_dead_letter_queue_topic_name)
        self._readers = TableReaders(checked_global_tables(global_tables, self._shape))
        refuse_too_few_replicas(self._shape, config.replication_factor)
        self._labour = labour
        self._first_look = first_look
        directory, self._wiped = open_state(config, clock_ms=monotonic_ms, wall_ms=wall_ms)
        mutex = ReportMutex(clock_ms=monotonic_ms, hold_ms=hold_limit_ms(config.max_poll_interval_ms))
        self._local = Local(directory, sums_at_start(directory, self._offsets_on_disk), mutex)
        self.log = EventLog(str(directory.process_id), on_event)
        """Every event of this process; others that work with it report theirs here, as the listener gets one at
        a time."""
        self._only_run = OnlyRun(type(self).__name__)
        self._ending = EndRequest()
        self._operation: str | None = None
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._processor: Processor | None = None
        self._membership: AnyMember | None = None

    @property
    def process_id(self) -> UUID:
        """Return the identity of this process in the group; the state directory keeps it across restarts."""
        return self._local.directory.process_id

    def run(self) -> None:
        """Join the group and process until ``close``. Raises ``ConfigError``, and changes nothing, in a second call.

        Raises what ended it: an error of the user's function, or ``ConfigError``, ``BrokerUnavailable``,
        ``BrokerError``, ``AssignmentRefused``, ``ShutdownRequested``, ``TopologyMismatch``, ``MalformedUserData``,
        ``InstanceFenced``, ``RecordRefused``, ``SerializationError`` or ``RegistryError``. The reference of errors says
        when, and what to do.
        """
        self._only_run.begin()
        error: str | None = None
        try:
            if not self._ending.is_set():
                self._run()
        except BaseException as failure:
            error = None if isinstance(failure, KeyboardInterrupt) else error_text(failure)
            raise
        finally:
            self._local.directory.close()
            self.log.emit(ClosedEvent(error=error))

    def _run(self) -> None:
        self._report_warnings()
        address = self._config.http_address
        http = None if address is None else StatusServer(address)
        queries: Queries | None = None
        try:
            queries = Queries(self._config)
            admin = ClusterAdmin(self._config.bootstrap_servers, self._config.client)
            # One wait, which is logged; the checks below then need not wait.
            if not admin.reach(FIRST_ANSWER_S, self._ending.is_set):
                return
            if self._first_look is not None:
                self._first_look(admin)
            refuse_missing_sinks(admin, self._flows, self._shape, self._config)
            self._labour.bad_records.bytes_max_of = TopicLimits(admin, self._config, self.log).bytes_max_of
            refuse_changelogs_of_other_kinds(self._config, admin, self._shape, self.log)
            refuse_settings_of_new_changelogs(self._config, admin, self._shape, self.log)
            refuse_missing_global_topics(admin, self._readers.tables, self.log)
            running = Working(
                queries.config,
                self._flows,
                self._shape,
                self._labour,
                admin,
                self._local,
                self.log,
                self._ending,
                self._readers,
            )
            if http is not None:
                http.start(running.parts.status, self.log)
            queries.start(running.answers.answer, self.log)
            self._reads_begin(running.lookup, queries)
            self._processor, self._membership = running.processor, running.parts.membership
            running.run(self._requests, lambda: self._operation)
        finally:
            self._reads_end()
            self._processor = self._membership = None
            if queries is not None:
                queries.close()
            if http is not None:
                http.stop()

    def _report_warnings(self) -> None:
        warnings = (*self._local.directory.warnings, *scarce_memory(self._config, container_memory_bytes()))
        if warnings:
            self.log.emit(WarningsEvent(warnings=warnings))
        if self._wiped:
            self.log.emit(StateWipedEvent(tasks=tuple(map(str, self._wiped))))

    def close(self, group_membership_operation: str | None = None, *, restart: bool = False) -> None:
        """Make ``run`` commit, close the tasks, leave the group and return.

        Call it from any thread or a signal handler; it does not wait. ``group_membership_operation`` (``leave_group``
        or ``remain_in_group``) replaces the setting. ``restart``: this process will be back soon. It announces that to
        the group first, which takes at most 10 seconds: tasks with a caught-up replica elsewhere move there, and the
        others wait for it, at most ``scheduled_rebalance_max_delay_ms``. A member that stays in the group at close
        announces nothing: the brokers wait for it until its session ends. Raises ``ConfigError`` for another value.
        """
        leaves = self._config.leaves(group_membership_operation)
        self._operation = group_membership_operation
        if restart and leaves and self._processor is not None:
            self._requests.put(announce_restart)
        else:
            self._ending.set()

    def rejoin(self, reason: str) -> None:
        """Ask the group for a rebalance; during another one, as soon as that is over. Call it from any thread."""
        self._requests.put(lambda membership: membership.rejoin(reason))

    def drain(self) -> None:
        """Have the group warm this member's tasks up elsewhere and move them; then ``run`` returns.

        If no member can take them (this one is alone, or a Java member leads), it leaves as ``close`` does. In a
        streams group only members of this package warm tasks up. Call it from any thread; it does not wait.
        """
        if self._processor is None:
            self._ending.set()  # it has not joined yet, so it has no tasks to move
        else:
            self._requests.put(drain)

    def pause(self, which: TaskId | str | int | None = None, *, timeout_s: float = 30.0) -> tuple[TaskId, ...]:
        """Pause active tasks of this process until ``resume``; return them once that is committed.

        ``which``: a task such as ``0_1``, the number of a subtopology (its tasks that are active here), or None for all
        (Java: ``KafkaStreams.pause``). A paused task stays assigned, its input is not read, and it stays paused when
        the process ends or the task moves to another member of this package; a Java member processes it. Call it from
        any thread; inside a function of the topology it does not wait, and returns nothing. Raises ``TaskNotLocal``,
        which names the process where the task runs, ``ConfigError`` for another argument, and ``BrokerUnavailable``
        where the commit takes longer than ``timeout_s``.
        """
        return change_pauses(self._processor, which, paused=True, timeout_s=timeout_s)

    def resume(self, which: TaskId | str | int | None = None, *, timeout_s: float = 30.0) -> tuple[TaskId, ...]:
        """End the pause of tasks, wherever it began; return them once that is committed. Otherwise as ``pause``."""
        return change_pauses(self._processor, which, paused=False, timeout_s=timeout_s)

    def paused(self) -> Mapping[TaskId, int]:
        """Return the paused tasks of this process: task -> since when, in milliseconds since 1970.

        Call it from any thread.
        """
        return {} if self._processor is None else self._processor.paused

    def shut_application_down(self) -> None:
        """Ask every member of the group to commit, close its tasks and end (Kafka: ``SHUTDOWN_APPLICATION``).

        Use it for an error that every other member would meet too; a function may raise that error after the call.
        ``run`` of each, and of this one, raises ``ShutdownRequested``; Java members obey as well. In a classic group
        a worker that ends after the call first awaits a rebalance, at most 10 seconds, by which the others learn of
        the request. Call it from any thread. Raises ``ConfigError`` with ``user_data = "kip441"``, which cannot express
        it, and while a member of Kafka Streams before 2.8 is in the group; if that turns out later, as before the first
        join, the event ``shutdown_refused`` follows.
        """
        self._config.refuse_unless_apache("shut_application_down")
        if (membership := self._membership) is None:
            self._requests.put(shut_application_down)
        else:  # at once, as this process may be about to end
            refuse_shutdown(membership)
            membership.shut_application_down()

    def global_table(self, name: str) -> ReadOnlyKeyValueStore:
        """Return one of the ``global_tables``, to be read from any thread while ``run`` is at work.

        Raises ``ConfigError`` for a name that is not declared.
        """
        return global_table(self._readers.views, name)

    def timestamped_global_table(self, name: str) -> ReadOnlyTimestampedKeyValueStore:
        """Return a table as ``global_table`` does, if it is ``timestamped``. Raises ``ConfigError`` for another."""
        return timestamped_global_table(self._readers.views, name)

    def _offsets_on_disk(self, task: TaskId, path: Path) -> Mapping[TopicPartition, int]:
        """Return a closed task's changelog offsets; read once at start, as a join must not wait for the disk."""
        if task.subtopology >= len(self._shape.subtopologies):
            return {}
        changelogs = self._shape.kept_changelogs(self._config.application_id, task)
        return {p: offset for p, offset in read_offsets(path).items() if p in changelogs}
