"""``GroupMember``: the membership alone, for programs with a loop, stores and clients of their own.

The group asks the program for three things, each by an event of ``poll``: *commit* what was processed before the member
joins again (classic groups only); *adopt* an assignment (write, commit and close the tasks that left, begin the new
ones); *drop* all tasks, as they run elsewhere. The program answers when it has done so; heartbeats go on meanwhile, on
another thread. What must not live here: records, stores, and what one kind of group does (``memberships``).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.confluent.transactions import group_metadata, librdkafka_writes, refuse_unknown_metadata
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, CommitRefused
from kstreams_assign.events import EventListener, LeaveFailedEvent
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.members import kept_members
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.memberships import connect_member, refuse_shutdown
from kstreams_assign.worker.reported_lags import ReportedLags
from kstreams_assign.worker.user_functions import refuse_no_listener

LEAVE_TIMEOUT_S = 5.0
Partitions = Mapping[TaskId, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class CommitDue:
    """A rebalance begins: ``commit`` what was processed, then call ``ready_to_join``.

    Processing may go on meanwhile. From then to the next ``Assignment``, ``commit`` raises ``CommitDeferred``. It comes
    in classic groups only: in streams groups commits go on while tasks move.
    """


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks that this member has from now on; answer with ``let_go``.

    First write, commit and close the ``revoked`` tasks; without any, call ``let_go`` at once. Restore what is new in
    ``active`` to the end of its changelogs before it runs.

    In a streams group the first ones may have warm-ups alone: those tasks will be active here. This member joins once
    ``at`` reports that their state is restored (``warm_join``).
    """

    generation: int
    """Generation of the group. In a streams group: the number of this member's assignment, 0 before it has joined; one
    that differs in warm-ups or input partitions alone has the same number."""
    active: Partitions
    """Active tasks, each with its input partitions."""
    standby: frozenset[TaskId]
    """Standbys: tasks whose changelogs to follow."""
    warmup: frozenset[TaskId]
    """Warm-ups: tasks whose changelogs to follow, to become active here."""
    revoked: frozenset[TaskId]
    """Tasks that were active here and are not any more; some of them may be standbys now. Those of earlier assignments
    are repeated until ``let_go`` is called."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The group went on without this member: drop all tasks, and write or commit nothing more of them.

    Do so before the next ``poll``: that lets a member of a streams group join again. A member of a classic group joins
    again at once. In both, ``commit`` and ``group_metadata`` raise ``CommitRefused`` from the loss to that ``poll``.
    """

    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Leave now: a drain is over, or the group knows that this process restarts.

    After a drain in a classic group this member has no task any more; in a streams group its tasks run until it leaves,
    and are warm elsewhere. Or no member can take them over warm.
    """


GroupEvent = CommitDue | Assignment | Lost | Drained
"""What ``GroupMember.poll`` returns."""


class Questions:
    """What the membership asks, as events for the program: put in on the membership's threads, taken by ``next``."""

    turned_ms = None  # the program's loop is not watched; the brokers wait for its answers as long as they do

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[tuple[GroupEvent | None, Callable[[], None] | None]] = queue.SimpleQueue()
        self._active: frozenset[TaskId] = frozenset()
        self._held: frozenset[TaskId] = frozenset()
        """The active tasks of the last assignment that the program took, and of those before it, until ``let_go``."""
        self._unanswered: dict[type[GroupEvent], GroupEvent] = {}
        """The last question of each kind that the program took and has not answered."""
        self._dropped: Callable[[], None] | None = None
        self._losses = self._losses_handled = 0  # the first is counted by the membership, the other by the program
        self.generation: int | None = None
        """Of the last assignment that the program took; None before the first."""

    def commit_now(self) -> None:
        self.put(CommitDue())

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self.put(Assignment(generation, adopted.active, adopted.standby, adopted.warmup, frozenset()))

    def drop_all(self, reason: str, then: Callable[[], None] | None = None) -> None:
        def dropped() -> None:
            self._losses_handled += 1
            if then is not None:
                then()

        self._losses += 1
        self._events.put((Lost(reason), dropped))

    def check_kept(self) -> None:
        """Raise ``CommitRefused`` from a loss until the program has dropped the tasks of the lost membership."""
        if self._losses != self._losses_handled:
            raise CommitRefused("commit offsets: the membership was lost; drop all tasks when poll returns Lost")

    def put(self, event: GroupEvent | None) -> None:
        """Pass an event on; None wakes the program."""
        self._events.put((event, None))

    def next(self, timeout_s: float) -> GroupEvent | None:
        """Return the next event, or None if none comes in time. The event before has been dealt with."""
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            dropped()
        try:
            event, self._dropped = self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        except queue.Empty:
            return None
        if isinstance(event, Assignment):
            self.generation, self._active = event.generation, frozenset(event.active)
            event = replace(event, revoked=self._held - self._active)
            self._held |= self._active
        elif isinstance(event, Lost):
            self._active = self._held = frozenset()
            self._unanswered.clear()
        if event is not None:
            self._unanswered[type(event)] = event
        return event

    def accept_answer(self, kind: type[GroupEvent]) -> bool:
        """Return whether the program took a question of this kind since its last answer to one."""
        return self._unanswered.pop(kind, None) is not None

    def let_go(self) -> int | None:
        """Note that the program holds the last assignment's tasks alone, and return the number of that assignment."""
        self._held = self._active
        return self.generation


class GroupMember:
    """Be one member of a Kafka Streams group; leaving the ``with`` block leaves the group.

    ``process_id`` is this process's identity: keep it across restarts, or tasks move. ``topology`` lists what each
    subtopology reads and stores; the leader, or in a streams group the brokers, create the changelogs, named
    ``<application_id>-<store>-changelog``. ``member_dir`` is a directory for this member alone: after a crash the next
    one with it is the same member of a streams group, and in a classic group removes the dead one. ``on_event`` gets
    the events of ``kstreams_assign.events``. Methods may be called from any thread. Raises ``ConfigError`` for settings
    that contradict each other or that the brokers refuse, ``StateError`` for ``member_dir``, ``BrokerUnavailable`` and
    ``BrokerError``.
    """

    def __init__(
        self,
        config: Config,
        topology: Sequence[SubtopologyShape],
        process_id: UUID,
        *,
        member_dir: str | PathLike[str] | None = None,
        on_event: EventListener | None = None,
    ) -> None:
        refuse_no_listener(on_event)
        if config.exactly_once:
            refuse_unknown_metadata(librdkafka_writes)
        self._config = config
        self._shape = shape = TopologyShape(tuple(topology))
        refuse_wrong_topology(shape, config.application_id)
        self._log = EventLog(str(process_id), on_event)
        self._sums = OffsetSums()
        self._mutex = ReportMutex(clock_ms=monotonic_ms, hold_ms=hold_limit_ms(config.max_poll_interval_ms))
        self._questions = Questions()
        self._loads: dict[TaskId, int] = {}
        self._failure: BaseException | None = None
        self._ending, self._leaves = EndRequest(), threading.Event()
        admin = ClusterAdmin(config.bootstrap_servers, config.client)
        self._committed = CommittedOffsets(
            config.bootstrap_servers, config.client, group_id=config.application_id, stable=config.exactly_once
        )
        leading = Leading(config, shape, process_id, admin, self._committed, self._log)
        early = EarlyProbing(config, process_id, self._sums, admin, leading.end_offset_sums, self.rejoin, self._log)
        with ExitStack() as opened:
            members = None
            if member_dir is not None:
                members = opened.enter_context(kept_members(Path(member_dir), process_id))
            self._membership, talk = connect_member(
                config,
                shape,
                process_id,
                self._questions,
                leading,
                early,
                members,
                self._sums,
                self._mutex,
                admin,
                self._log,
                ReportedLags(self._sums, leading.end_offset_sums, monotonic_ms),
                lambda: None,  # the program has the stores, and knows its disk
                lambda: self._questions.put(Drained()),
                lambda: dict(self._loads),
            )
            self._closing = opened.pop_all()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"kstreams-{name}", daemon=True)
            for name, work in (("membership", self._be_member), ("progress", lambda: talk(self._ending)))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._leaves.set()
        try:
            self._membership.await_shutdown(self._threads[0], lambda: False)  # ``poll`` is over
        finally:
            self._leave_group()

    def _leave_group(self) -> None:
        self._membership.close()
        for thread in self._threads:
            thread.join()
        try:
            self._membership.leave(LEAVE_TIMEOUT_S)
        except BrokerError as cause:
            self._log.emit(LeaveFailedEvent(reason=str(cause)))
        self._committed.close()
        self._closing.close()

    # --- events out --------------------------------------------------------------------

    def poll(self, timeout_s: float) -> GroupEvent | None:
        """Return the next event, or None if none comes within ``timeout_s`` seconds.

        Raises what made the membership impossible: ``AssignmentRefused``, ``ShutdownRequested``, ``TopologyMismatch``,
        ``MalformedUserData``, ``ConfigError``, ``InstanceFenced`` or another error of ``BrokerError``.
        """
        event = self._questions.next(timeout_s)
        if event is None and self._failure is not None:
            raise self._failure
        return event

    # --- answers -----------------------------------------------------------------------

    def ready_to_join(self) -> None:
        """Answer ``CommitDue``: what was processed is committed. It has no effect unless ``poll`` has returned one."""
        if self._questions.accept_answer(CommitDue):
            self._membership.handle(machine.WorkCommitted())

    def let_go(self) -> None:
        """Answer the last ``Assignment`` of ``poll``: the revoked tasks are written, committed and closed.

        A second answer has no effect.
        """
        if self._questions.accept_answer(Assignment):
            self._membership.handle(machine.TasksReleased(self._questions.let_go()))

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

    def report_load(self, task: TaskId, load: float) -> None:
        """Report the load of an active task, for ``balance_by``: records that arrive in a minute, or bytes on disk.

        Report it as it is measured, over minutes if it is a rate: changes below a fifth, and below 60 records or
        64 MiB, count as noise. A negative load counts as 0. With ``balance_by = "tasks"`` it has no effect.
        """
        self._loads[task] = max(0, round(load))

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
        """Commit next input offsets in this generation, or in a streams group under this member's epoch.

        Raises ``CommitDeferred`` during a rebalance (in a streams group: if the coordinator has a newer epoch, which
        has not arrived within ``timeout_s``; commit again), ``PartitionsAbsent`` if the brokers do not know some of the
        partitions (all other offsets are committed), ``CommitRefused`` for a member that is no longer in the
        group, and until the tasks of a lost membership are dropped (``Lost``), and ``BrokerError``. Partition times are
        not committed: a Java member that goes on from here takes its time from the next record.
        """
        self._questions.check_kept()
        self._membership.commit(offsets, timeout_s, {})

    def group_metadata(self) -> bytes:
        """Return the group metadata for ``send_offsets_to_transaction`` of a confluent-kafka producer of your own.

        It is valid in this generation. In a streams group it contains the member epoch, which changes as tasks move:
        ask for each transaction, and if the offsets are refused with ILLEGAL_GENERATION, abort, and repeat the work
        unless ``Lost`` comes. Raises ``CommitRefused`` as ``commit`` does, and ``CommitDeferred`` during a rebalance;
        in a streams group while a heartbeat is under way: ask again. Set ``processing_guarantee = "exactly_once_v2"``,
        so that ``committed`` waits for open transactions.
        """
        self._questions.check_kept()
        member = self._membership.member()
        self._questions.check_kept()  # a loss is ordered before the client can be in another generation
        return group_metadata(self._config.application_id, member)

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
        """Ask the group for a rebalance; during another one, as soon as that is over.

        No effect in a streams group: the brokers decide when tasks move.
        """
        self._membership.rejoin(reason)

    def drain(self) -> None:
        """Ask the group to warm this member's tasks up elsewhere and to move them; ``Drained`` follows.

        In a streams group the tasks stay until this member leaves. Members of this package take them over.
        """
        self._membership.drain()

    def announce_restart(self) -> None:
        """Announce to the group that this process leaves and is back soon; ``Drained`` follows.

        Then leave: tasks without a caught-up replica wait for ``scheduled_rebalance_max_delay_ms`` at most. In a
        streams group all its tasks wait until its session ends; without ``member_dir`` none waits, as the group would
        not know the next process.
        """
        self._membership.announce_restart()

    def shut_application_down(self) -> None:
        """Ask every member of the group to end (Kafka: ``SHUTDOWN_APPLICATION``).

        In each of them, and here, ``poll`` returns an ``Assignment`` without tasks and, after its ``let_go``, raises
        ``ShutdownRequested``; in a streams group it raises at once, and ``commit`` works until the ``with`` block ends.
        If that block ends before, leaving a classic group waits until the others know, at most 10 seconds. Raises
        ``ConfigError`` with ``user_data = "kip441"``, and while a member of Kafka Streams before 2.8 is in the group;
        if that turns out later, the event ``shutdown_refused`` follows.
        """
        self._config.refuse_unless_apache("shut_application_down")
        refuse_shutdown(self._membership)
        self._membership.shut_application_down()

    def _be_member(self) -> None:
        """Be a member until the ``with`` block ends: after an error the program still commits and closes its tasks."""
        self._guarded(self._membership.run)
        self._membership.keep_place(self._leaves)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Keep the first error; ``poll`` raises it."""
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  # raised again by poll()
            if self._failure is None:
                self._failure = failure
            self._questions.put(None)
