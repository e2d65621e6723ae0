"""``GroupMember``: the membership alone, for programs with a loop, stores and clients of their own.

A rebalance asks the program for three things, each by an event of ``poll``: *commit* what was processed before the
member joins; *adopt* an assignment (write, commit and close the tasks that left, begin the new ones); *drop* all tasks,
as they run elsewhere. The program answers when it has done so; heartbeats go on meanwhile, on another thread. What must
not live here: records, stores, state directories.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.confluent.transactions import group_metadata, librdkafka_writes, refuse_unknown_metadata
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, ConfigError
from kstreams_assign.events import EventListener, LeaveFailedEvent
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.worker.connecting import group_client
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.membership import Membership
from kstreams_assign.worker.predecessors import PredecessorCleanup

LEAVE_TIMEOUT_S = 5.0
Partitions = Mapping[TaskId, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class CommitDue:
    """A rebalance begins: ``commit`` what was processed, then call ``ready_to_join``.

    Processing may go on meanwhile. From then to the next ``Assignment``, ``commit`` raises ``CommitDeferred``.
    """


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks that this member has from now on; answer with ``let_go``.

    First write, commit and close the ``revoked`` tasks; without any, call ``let_go`` at once. Restore what is new in
    ``active`` to the end of its changelogs before it runs.
    """

    generation: int
    """Generation of the group."""
    active: Partitions
    """Active tasks, each with its input partitions."""
    standby: frozenset[TaskId]
    """Standbys: tasks whose changelogs to follow."""
    warmup: frozenset[TaskId]
    """Warm-ups: tasks whose changelogs to follow, to become active here."""
    revoked: frozenset[TaskId]
    """Tasks that were active here and are not any more; some of them may be standbys now."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The group went on without this member: drop all tasks, and write or commit nothing more of them."""

    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Leave now: a drain is over, or the group knows that this process restarts.

    After a drain this member has no task any more, or no member can take them over warm.
    """


GroupEvent = CommitDue | Assignment | Lost | Drained
"""What ``GroupMember.poll`` returns."""


class _Questions:
    """Turn what the membership asks into events for the program. Called on the membership's threads."""

    turned_ms = None  # the program's loop is not watched; the brokers wait for its answers as long as they do

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[GroupEvent | None] = queue.SimpleQueue()
        self._active: frozenset[TaskId] = frozenset()

    def commit_now(self) -> None:
        self.events.put(CommitDue())

    def adopt(self, generation: int, adopted: Adopted) -> None:
        revoked = self._active - adopted.active.keys()
        self._active = frozenset(adopted.active)
        self.events.put(Assignment(generation, adopted.active, adopted.standby, adopted.warmup, revoked))

    def drop_all(self, reason: str, then: Callable[[], None] | None = None) -> None:
        self._active = frozenset()
        self.events.put(Lost(reason))
        if then is not None:
            then()


class GroupMember:
    """Be one member of a Kafka Streams group; leaving the ``with`` block leaves the group.

    ``process_id`` is this process's identity: keep it across restarts, or tasks move. ``topology`` lists what each
    subtopology reads and stores; the leader creates the changelogs, named ``<application_id>-<store>-changelog``.
    ``on_event`` gets the events of ``kstreams_assign.events``. Methods may be called from any thread. Raises
    ``ConfigError`` for settings that contradict each other or that the brokers refuse, ``BrokerUnavailable`` and
    ``BrokerError``.
    """

    def __init__(
        self,
        config: Config,
        topology: Sequence[SubtopologyShape],
        process_id: UUID,
        *,
        on_event: EventListener | None = None,
    ) -> None:
        if config.in_streams_group:
            raise ConfigError('group_protocol = "streams": GroupMember joins classic groups only; set "classic"')
        if config.exactly_once:
            refuse_unknown_metadata(librdkafka_writes)
        self._config = config
        self._shape = shape = TopologyShape(tuple(topology))
        refuse_wrong_topology(shape, config.application_id)
        self._log = EventLog(str(process_id), on_event)
        self._sums = OffsetSums()
        self._mutex = ReportMutex(clock_ms=monotonic_ms, hold_ms=hold_limit_ms(config.max_poll_interval_ms))
        questions = _Questions()
        self._events = questions.events
        self._failure: BaseException | None = None
        self._ending = EndRequest()
        admin = ClusterAdmin(config.bootstrap_servers, config.client)
        self._committed = CommittedOffsets(
            config.bootstrap_servers, config.client, group_id=config.application_id, stable=config.exactly_once
        )
        leading = Leading(config, shape, process_id, admin, self._committed, self._log)
        self._early = EarlyProbing(
            config, process_id, self._sums, admin, leading.end_offset_sums, self.rejoin, self._log
        )
        self._membership = Membership(
            config,
            shape,
            process_id,
            questions,
            leading,
            self._sums,
            self._mutex,
            self._log,
            lambda membership: group_client(config, shape, admin, membership),
            self._early.adopted,
            lambda: self._events.put(Drained()),
            PredecessorCleanup(config, None, self._log),
        )
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"kstreams-{name}", daemon=True)
            for name, work in (
                ("membership", self._membership.run),
                ("early-probing", lambda: self._early.run(self._ending)),
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._membership.close()
        for thread in self._threads:
            thread.join()
        try:
            self._membership.leave(LEAVE_TIMEOUT_S)
        except BrokerError as cause:
            self._log.emit(LeaveFailedEvent(reason=str(cause)))
        self._committed.close()

    # --- events out --------------------------------------------------------------------

    def poll(self, timeout_s: float) -> GroupEvent | None:
        """Return the next event, or None if none comes within ``timeout_s`` seconds.

        Raises what made the membership impossible: ``AssignmentRefused``, ``ShutdownRequested``, ``TopologyMismatch``,
        ``MalformedUserData``, ``ConfigError``, ``InstanceFenced`` or another error of ``BrokerError``.
        """
        try:
            event = self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        except queue.Empty:
            event = None
        if event is None and self._failure is not None:
            raise self._failure
        return event

    # --- answers -----------------------------------------------------------------------

    def ready_to_join(self) -> None:
        """Answer ``CommitDue``: what was processed is committed."""
        self._membership.handle(machine.WorkCommitted())

    def let_go(self) -> None:
        """Answer ``Assignment``: the revoked tasks are written, committed and closed."""
        self._membership.handle(machine.TasksReleased())

    # --- reports in: the offsets of each task's state -----------------------------------

    def running(self, task: TaskId) -> None:
        """Report that an active task is restored and runs."""
        self._sums.running(task)

    def at(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Report the next offsets to read of a standby, a warm-up, or an active task that is being restored."""
        self._sums.restoring(task, next_offsets)

    def dormant(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Report state on disk of a task that is not assigned here, by its next offsets.

        It may be deleted between ``try_clean`` and ``end_clean`` only.
        """
        self._sums.dormant(task, next_offsets)

    def forget(self, task: TaskId) -> None:
        """Report that the state of a task was deleted."""
        self._sums.forget(task)

    def try_clean(self) -> bool:
        """Return whether state may be deleted now; False while a rebalance counts on it (KIP-441's mutex).

        After True, delete, ``forget`` the tasks, and call ``end_clean``.
        """
        return self._mutex.try_clean()

    def end_clean(self) -> None:
        """End what ``try_clean`` began."""
        self._mutex.end_clean()

    # --- the group ---------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float = 5.0) -> None:
        """Commit next input offsets in this generation.

        Raises ``CommitDeferred`` during a rebalance, ``CommitRefused`` for a member that is no longer in the
        generation, and ``BrokerError``. Partition times are not committed: a Java member that goes on from here takes
        its time from the next record.
        """
        self._membership.commit(offsets, timeout_s, {})

    def group_metadata(self) -> bytes:
        """Return the group metadata for ``send_offsets_to_transaction`` of a confluent-kafka producer of your own.

        It is valid in this generation. Raises ``CommitDeferred`` and ``CommitRefused`` as ``commit`` does. Set
        ``processing_guarantee = "exactly_once_v2"``, so that ``committed`` waits for open transactions.
        """
        return group_metadata(self._config.application_id, self._membership.member())

    def committed(self, partitions: Sequence[TopicPartition], timeout_s: float = 5.0) -> Mapping[TopicPartition, int]:
        """Return committed offsets; a partition without one is left out. Raises ``BrokerError``."""
        return self._committed.read(partitions, timeout_s)

    def lease_left_s(self) -> float:
        """Return how many seconds this member may still write: until its session ends if no heartbeat is answered."""
        return self._membership.lease_left_s()

    def changelogs(self, task: TaskId) -> Mapping[str, TopicPartition]:
        """Return the changelog partition of each store of a task, by the store's name."""
        return self._shape.changelogs(self._config.application_id, task)

    def rejoin(self, reason: str) -> None:
        """Ask the group for a rebalance; during another one, as soon as that is over."""
        self._membership.rejoin(reason)

    def drain(self) -> None:
        """Ask the group to warm this member's tasks up elsewhere and to move them; ``Drained`` follows."""
        self._membership.drain()

    def announce_restart(self) -> None:
        """Announce to the group that this process leaves and is back soon; ``Drained`` follows.

        Then leave: tasks without a caught-up replica wait for ``scheduled_rebalance_max_delay_ms`` at most.
        """
        self._membership.announce_restart()

    def shut_application_down(self) -> None:
        """Ask every member of the group to end (Kafka: ``SHUTDOWN_APPLICATION``).

        In each of them, and here, ``poll`` returns an ``Assignment`` without tasks and, after its ``let_go``, raises
        ``ShutdownRequested``. Raises ``ConfigError`` with ``user_data = "kip441"``.
        """
        self._config.refuse_unless_apache("shut_application_down")
        self._membership.shut_application_down()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Keep an error that ends a thread; ``poll`` raises it."""
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  # raised again by poll()
            self._failure = failure
            self._events.put(None)
