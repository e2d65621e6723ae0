"""Kafka's group coordinator for one streams group: epochs, targets, reconciliation, sessions, offsets.

After ``GroupMetadataManager``, ``StreamsGroup`` and ``CurrentAssignmentBuilder`` of Kafka 4.3.1. The broker takes no
time, and what it has answered survives a move to another broker; only its timers begin again. Not simulated: topics
and topologies that differ, static members, endpoints, shutdown of the application, authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kstreams_assign.assign.java.streams_sticky import (
    StreamsMember,
    SubtopologyTasks,
    TargetTasks,
    assign_streams_tasks,
)
from kstreams_assign.engine.streams_errors import (
    FENCED_MEMBER_EPOCH,
    LOAD_IN_PROGRESS,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from kstreams_assign.engine.streams_events import AssignmentFound, StreamsTasks, tasks_by_role
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.coordinator import INITIAL_DELAY_MS, Error
from kstreams_assign.sim.timeline import Timeline
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import ASSIGNMENT_DELAYED, JOIN_EPOCH, LEAVE_EPOCH, GroupStatus
from kstreams_assign.wire.streams_structs import task_ids

ASSIGNMENT_INTERVAL_MS = 1_000
"""Kafka: ``group.streams.assignment.interval.ms``."""
FIRST_EPOCH = 1
"""Of the members that wait for the first target. The first target has the next epoch."""
NOTHING = TargetTasks()


class SeatState(Enum):
    """How far a member has come towards its target (Kafka: ``MemberState``)."""

    STABLE = "stable"
    UNREVOKED_TASKS = "unrevoked tasks"  # it has to release some first
    UNRELEASED_TASKS = "unreleased tasks"  # others have to release some of its target first


@dataclass(slots=True)
class Seat:
    """A member as the coordinator knows it. ``active``, ``leaving``: active tasks, and the epochs they came with.

    ``leaving`` and ``leaving_standby`` are assigned no more, and not released yet.
    """

    process_id: str
    rebalance_timeout_ms: int
    epoch: int = 0
    previous_epoch: int = 0
    state: SeatState = SeatState.STABLE
    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: frozenset[TaskId] = frozenset()
    leaving: Mapping[TaskId, int] = field(default_factory=dict)
    leaving_standby: frozenset[TaskId] = frozenset()
    deadline_ms: int = 0

    @property
    def assigned(self) -> StreamsTasks:
        return StreamsTasks(frozenset(self.active), self.standby)


@dataclass
class StreamsCoordinator:
    """The group. ``rebalances`` counts targets.

    ``inputs``: the task of each input partition. ``accepted`` is called for each accepted commit, ``answered`` with
    each accepted heartbeat's member, what it says it owns (None: no word of it) and what it is given now, ``removed``
    for each member that is out of the group.
    """

    timeline: Timeline
    session_timeout_ms: int
    heartbeat_interval_ms: int
    subtopologies: Mapping[int, SubtopologyTasks]
    standbys: int
    inputs: Mapping[TopicPartition, TaskId]
    accepted: Callable[[str, Mapping[TopicPartition, int]], None]
    answered: Callable[[str, StreamsTasks | None, StreamsTasks], None]
    removed: Callable[[str], None]
    epoch: int = FIRST_EPOCH
    target_epoch: int = 0
    targets: dict[str, TargetTasks] = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=dict)
    rebalances: int = 0
    _assigned_ms: int | None = None
    _delay_ends_ms: int = 0
    _moved_ms: int = 0
    _away_until_ms: int = 0
    _moves: int = 0

    # --- heartbeats ------------------------------------------------------------------

    def heartbeat(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResponse:
        """Handle StreamsGroupHeartbeat: a join, a heartbeat, or a leave."""
        if self.away:
            loads = self.timeline.now_ms >= (self._moved_ms + self._away_until_ms) // 2
            return self._refuse(LOAD_IN_PROGRESS if loads else NOT_COORDINATOR)
        name, owned = request.member_id, _owned(request)
        if request.member_epoch == JOIN_EPOCH:
            self._take_in(request)
        elif name not in self.seats:
            return self._refuse(UNKNOWN_MEMBER_ID)
        elif request.member_epoch == LEAVE_EPOCH:
            self._remove(name)
            return self._answer(name, LEAVE_EPOCH)
        elif not _is_current(self.seats[name], request.member_epoch, owned):
            return self._refuse(FENCED_MEMBER_EPOCH)
        return self._go_on(name, request.member_epoch, owned)

    def _take_in(self, request: StreamsHeartbeatRequest) -> None:
        """Add a member; one that is there keeps its tasks."""
        name, process_id = request.member_id, request.process_id
        if process_id is None or request.topology is None or _owned(request) != StreamsTasks():
            raise AssertionError("a join has a process id, a topology, and three empty lists")
        if name in self.seats:
            return
        if not self.seats:
            self._delay_ends_ms = self.timeline.now_ms + INITIAL_DELAY_MS
            self.timeline.at(self._delay_ends_ms, self._delay_over, self._delay_ends_ms)
        self.seats[name] = Seat(process_id, request.rebalance_timeout_ms)
        self._renew_session(name)
        self._watch_session(name, self.seats[name])
        self.epoch += 1

    def _go_on(self, name: str, epoch: int, owned: StreamsTasks | None) -> StreamsHeartbeatResponse:
        seat = self.seats[name]
        if self.epoch > self.target_epoch and not self._is_delayed:
            self._assign()
        before = seat.assigned
        self._reconcile(name, seat, owned)
        self._renew_session(name)
        self.answered(name, owned, seat.assigned)
        is_told = epoch == JOIN_EPOCH or seat.assigned != before
        return self._answer(name, seat.epoch, seat.assigned if is_told else None)

    def _answer(self, name: str, epoch: int, tasks: StreamsTasks | None = None) -> StreamsHeartbeatResponse:
        waits = self.target_epoch == 0 and epoch > 0
        return StreamsHeartbeatResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            member_id=name,
            member_epoch=epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            task_offset_interval_ms=0,
            acceptable_recovery_lag=0,
            status=(GroupStatus(ASSIGNMENT_DELAYED, "the first members are waited for"),) if waits else (),
            active_tasks=None if tasks is None else task_ids(tasks.active),
            standby_tasks=None if tasks is None else task_ids(tasks.standby),
            warmup_tasks=None if tasks is None else (),
        )

    def _refuse(self, code: int) -> StreamsHeartbeatResponse:
        return StreamsHeartbeatResponse(0, code, "refused", "", 0, self.heartbeat_interval_ms, 0, 0)

    def describe(self, member_id: str) -> AssignmentFound | None:
        """Return the tasks of a member, as StreamsGroupDescribe does; None while no broker answers."""
        if self.away:
            return None
        seat = self.seats.get(member_id)
        return AssignmentFound(JOIN_EPOCH, None) if seat is None else AssignmentFound(seat.epoch, seat.assigned)

    # --- the target ------------------------------------------------------------------

    @property
    def _is_delayed(self) -> bool:
        """Whether a new target has to wait: for the first members, or since the last one was made just now."""
        now_ms = self.timeline.now_ms
        is_early = self._assigned_ms is not None and now_ms < self._assigned_ms + ASSIGNMENT_INTERVAL_MS
        return now_ms < self._delay_ends_ms or is_early

    def _delay_over(self, ends_ms: int) -> None:
        if ends_ms == self._delay_ends_ms and self.seats and not self.away:
            self._delay_ends_ms = 0
            self._assign()

    def _assign(self) -> None:
        """Compute the target of this epoch, as the broker's own assignor does."""
        members = [
            StreamsMember(name, seat.process_id, self._target(name).active, self._target(name).standby)
            for name, seat in self.seats.items()
        ]
        self.targets = assign_streams_tasks(members, self.subtopologies, self.standbys)
        self.target_epoch, self._assigned_ms = self.epoch, self.timeline.now_ms
        self.rebalances += 1

    def _target(self, name: str) -> TargetTasks:
        return self.targets.get(name, NOTHING)

    # --- reconciliation (CurrentAssignmentBuilder) --------------------------------------

    def _reconcile(self, name: str, seat: Seat, owned: StreamsTasks | None) -> None:
        """Bring the member as near to its target as it may come now."""
        target_epoch = max(FIRST_EPOCH, self.target_epoch)
        match seat.state:
            case SeatState.STABLE:
                if seat.epoch != target_epoch:
                    self._aim(name, seat, seat.epoch, owned)
            case SeatState.UNREVOKED_TASKS:
                if owned is not None and not _holds(owned, seat.leaving, seat.leaving_standby):
                    self._aim(name, seat, seat.epoch + 1, owned)
            case SeatState.UNRELEASED_TASKS:
                self._aim(name, seat, seat.epoch, owned)

    def _aim(self, name: str, seat: Seat, epoch: int, owned: StreamsTasks | None) -> None:
        """Take what is not in the target; once that is released, give what no other member has."""
        target, target_epoch = self._target(name), max(FIRST_EPOCH, self.target_epoch)
        kept = {task: since for task, since in seat.active.items() if task in target.active}
        kept_standby = seat.standby & target.standby
        leaving = {task: since for task, since in seat.active.items() if task not in target.active}
        leaving_standby = seat.standby - target.standby
        asked, asked_standby = target.active - kept.keys(), target.standby - kept_standby
        free, free_standby = asked - self._unreleased(seat), asked_standby - self._held_here(seat)
        if (leaving or leaving_standby) and (owned is None or _holds(owned, leaving, leaving_standby)):
            seat.active, seat.standby = kept, kept_standby
            seat.leaving, seat.leaving_standby = leaving, leaving_standby
            self._set_state(name, seat, SeatState.UNREVOKED_TASKS, epoch)
            return
        seat.active, seat.standby = kept | dict.fromkeys(free, target_epoch), kept_standby | free_standby
        seat.leaving, seat.leaving_standby = {}, frozenset()
        waits = free != asked or free_standby != asked_standby
        self._set_state(name, seat, SeatState.UNRELEASED_TASKS if waits else SeatState.STABLE, target_epoch)

    def _unreleased(self, seat: Seat) -> frozenset[TaskId]:
        """Return the tasks that are active anywhere, or of which this process has a standby; also those on the way."""
        standbys = (other.standby | other.leaving_standby for other in self._of_process(seat))
        active = (other.active.keys() | other.leaving.keys() for other in self.seats.values())
        return frozenset().union(*active, *standbys)

    def _held_here(self, seat: Seat) -> frozenset[TaskId]:
        """Return the tasks that this process has in any role, also those on the way."""
        held = (
            other.active.keys() | other.leaving.keys() | other.standby | other.leaving_standby
            for other in self._of_process(seat)
        )
        return frozenset().union(*held)

    def _of_process(self, seat: Seat) -> list[Seat]:
        return [other for other in self.seats.values() if other.process_id == seat.process_id]

    def _set_state(self, name: str, seat: Seat, state: SeatState, epoch: int) -> None:
        seat.previous_epoch, seat.epoch, seat.state = seat.epoch, epoch, state
        if state is SeatState.UNREVOKED_TASKS:
            self._watch_release(name, seat)

    # --- sessions, leaving ---------------------------------------------------------------

    def _renew_session(self, name: str) -> None:
        self.seats[name].deadline_ms = self.timeline.now_ms + self.session_timeout_ms

    def _watch_session(self, name: str, seat: Seat) -> None:
        """Check a session at its deadline, which may have moved by then."""
        if self.seats.get(name) is not seat:
            return
        if self.timeline.now_ms < seat.deadline_ms:
            self.timeline.at(seat.deadline_ms, self._watch_session, name, seat)
        else:
            self._remove(name)

    def _watch_release(self, name: str, seat: Seat) -> None:
        """Fence the member if it has not released its tasks in time."""
        begins_ms = max(self.timeline.now_ms, self._away_until_ms)
        due_ms = begins_ms + seat.rebalance_timeout_ms
        self.timeline.at(due_ms, self._release_over, name, seat, seat.epoch, self._moves)

    def _release_over(self, name: str, seat: Seat, epoch: int, moves: int) -> None:
        is_same = self.seats.get(name) is seat and seat.epoch == epoch and moves == self._moves
        if is_same and seat.state is SeatState.UNREVOKED_TASKS:
            self._remove(name)

    def _remove(self, name: str) -> None:
        del self.seats[name]
        self.targets.pop(name, None)
        self.epoch += 1
        self.removed(name)

    # --- offsets ------------------------------------------------------------------------

    def commit(self, member_id: str, epoch: int, offsets: Mapping[TopicPartition, int]) -> Error:
        """Handle OffsetCommit. It does not renew the session."""
        error = self.transactional_commit(member_id, None, epoch, offsets)
        if error is Error.NONE:
            self.accepted(member_id, offsets)
        return error

    def transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002  # no member is static
        epoch: int,
        offsets: Mapping[TopicPartition, int],
    ) -> Error:
        """Handle a TxnOffsetCommit; its offsets count once committed."""
        if self.away:
            return Error.NOT_COORDINATOR
        if member_id not in self.seats:
            return Error.UNKNOWN_MEMBER_ID
        tasks = {self.inputs[partition] for partition in offsets}
        return Error.NONE if all(self.may_commit(member_id, epoch, task) for task in tasks) else Error.STALE_EPOCH

    def may_commit(self, member_id: str, epoch: int, task: TaskId) -> bool:
        """Return whether offsets of a task are accepted; of an older epoch only if the member had the task by then."""
        seat = self.seats.get(member_id)
        if seat is None or epoch > seat.epoch:
            return False
        since = seat.active.get(task, seat.leaving.get(task))
        return epoch == seat.epoch or (since is not None and epoch >= since)

    def owns(self, member_id: str, task: TaskId) -> bool:
        """Return whether a member has an active task, or has not released it yet."""
        seat = self.seats.get(member_id)
        return seat is not None and (task in seat.active or task in seat.leaving)

    # --- another broker takes over ----------------------------------------------------------

    def move(self, lasts_ms: int) -> None:
        """Stop answering for ``lasts_ms``; then all sessions start again."""
        self._moved_ms, self._away_until_ms = self.timeline.now_ms, self.timeline.now_ms + lasts_ms
        self._start_timers()

    def be_back(self) -> None:
        """End the move to another broker, if one is under way: all sessions start now."""
        if self.away:
            self._away_until_ms = self.timeline.now_ms
            self._start_timers()

    def _start_timers(self) -> None:
        self._moves += 1
        self._delay_ends_ms = 0
        for name, seat in self.seats.items():
            seat.deadline_ms = self._away_until_ms + self.session_timeout_ms
            if seat.state is SeatState.UNREVOKED_TASKS:
                self._watch_release(name, seat)

    @property
    def away(self) -> bool:
        """Whether the group is moving to another broker, so no broker answers."""
        return self.timeline.now_ms < self._away_until_ms

    @property
    def is_stable(self) -> bool:
        """Whether each member has its whole target, and the target is that of the present members."""
        return self.epoch == self.target_epoch and all(
            seat.state is SeatState.STABLE and seat.epoch == self.epoch for seat in self.seats.values()
        )


def _owned(request: StreamsHeartbeatRequest) -> StreamsTasks | None:
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    active, standby, warmup = lists
    if active is None or standby is None or warmup is None:
        if any(each is not None for each in lists):
            raise AssertionError("the three lists of tasks are all there or all missing")
        return None
    return tasks_by_role(active, standby, warmup)


def _is_current(seat: Seat, epoch: int, owned: StreamsTasks | None) -> bool:
    """Return whether this is the member's epoch, or the one before: an answer may be lost. Then it owns no more."""
    if epoch == seat.epoch:
        return True
    return (
        epoch == seat.previous_epoch
        and owned is not None
        and owned.active <= seat.active.keys()
        and owned.standby <= seat.standby
    )


def _holds(owned: StreamsTasks, active: Mapping[TaskId, int], standby: frozenset[TaskId]) -> bool:
    return not owned.active.isdisjoint(active) or not owned.standby.isdisjoint(standby)
