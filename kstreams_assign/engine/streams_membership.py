"""One member of a streams group (KIP-1071): which heartbeat it sends when, and what an answer asks of its tasks.

``StreamsMembership.handle(event, now_ms)`` returns effects, which a shell carries out in order; ``due_ms`` is when the
next heartbeat is due. The broker assigns; this member owns the tasks of an assignment once those that it lost are
released, and only then reports so. The rules are those of Kafka's ``StreamsMembershipManager`` and
``StreamsGroupHeartbeatRequestManager``, with one addition: the coordinator sends tasks only in the answer to the
heartbeat that changed them. After an answer was lost, this member therefore looks its assignment up; otherwise it
might never learn of a task, and no member would run it.

What must not live here: sockets, input partitions of tasks (both are the shell's), commits (``commits``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import ClassVar

from kstreams_assign.engine.membership import ShutdownAsked
from kstreams_assign.engine.streams_awaited import AWAITING_INTERVAL_MS, AwaitedTasks
from kstreams_assign.engine.streams_errors import (
    AGAIN,
    FENCED,
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    UNRELEASED_INSTANCE_ID,
    refusal,
)
from kstreams_assign.engine.streams_events import (
    NO_TASKS,
    AdoptTasks,
    AnnounceStatus,
    Answered,
    AssignmentFound,
    CallReturned,
    CallStalled,
    Effect,
    EndMembership,
    Event,
    HeartbeatDue,
    LeaveAnswered,
    LookUpAssignment,
    LookupFailed,
    SendHeartbeat,
    SendLeave,
    StreamsTasks,
    TasksAwaited,
    TasksDropped,
    Unanswered,
    tasks_by_role,
)
from kstreams_assign.engine.streams_offsets import OffsetReports, Positions
from kstreams_assign.errors import BrokerError, KStreamsAssignError, ShutdownRequested, TopologyMismatch
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.lease import Lease
from kstreams_assign.group.member import CloseAsked, DropAll, MembershipLost, Started, TasksReleased
from kstreams_assign.model import HostInfo, TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import (
    INCORRECTLY_PARTITIONED_TOPICS,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    SHUTDOWN_APPLICATION,
    EndpointPartitions,
    GroupStatus,
    StreamsTopology,
)
from kstreams_assign.wire.streams_structs import Endpoint, task_ids, tasks_of

FIRST_INTERVAL_MS = 5_000
"""Kafka's default, until the broker names the interval."""
BACKOFF_MS, BACKOFF_MAX_MS = 100, 1_000
"""Kafka: ``retry.backoff.ms`` and ``retry.backoff.max.ms``."""

LOOK_FIRST_MS, LOOK_LAST_MS, LOOK_FACTOR = 10_000, 160_000, 4
"""After how long a member looks its assignment up again once a heartbeat was not answered, and each time after that.

The heartbeat may arrive after later ones were answered, over a connection that is read no longer. Its answer
may be the only one that names a new task.
"""

NO_WARM_UPS = -1
"""The acceptable lag that a coordinator answers which assigns no warm-ups."""

NO_HOSTS = -1
"""An endpoint epoch that no coordinator has. It counts from 0, and from 0 again after a move to another broker."""

RELEASES_MAX = 3
"""How often a static member's join is refused although its place in the group was given up; once in a full group."""

STALLED = "a call of a function takes longer than max_poll_interval_ms"
UNREADABLE = "the answer to a heartbeat contradicts itself: the three lists of tasks are not all there or all missing"


class State(Enum):
    """Where a member stands."""

    UNJOINED = "unjoined"  # not started
    JOINING = "joining"  # epoch 0; owns nothing
    MEMBER = "member"
    FENCED = "fenced"  # out of the group; it joins again once the tasks are dropped
    STALLED = "stalled"  # it has left until the call of the user's function returns
    CLOSING = "closing"  # its tasks are being closed; heartbeats keep its place, and nothing more is adopted
    CLOSED = "closed"  # it was refused or has lost its place, or it has no tasks to close; no heartbeat is due

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Profile:
    """What does not change while the process lives. ``member_id`` is chosen here: a UUID as a string."""

    group_id: str
    member_id: str
    process_id: str
    topology: StreamsTopology
    rebalance_timeout_ms: int
    endpoint: HostInfo | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    instance_id: str | None = None
    reports_offsets: bool = False
    """Whether the brokers take reports of positions: in version 1 of the heartbeat."""
    session_timeout_ms: int = 45_000


class StreamsMembership:
    """The machine. Times are milliseconds of one clock, from the caller."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.state = State.UNJOINED
        self.epoch = JOIN_EPOCH
        """The member epoch, under which commits are sent."""
        self.owned = NO_TASKS
        """The tasks of the last assignment whose predecessor is released."""
        self.status: tuple[GroupStatus, ...] = ()
        self.hosts: tuple[EndpointPartitions, ...] = ()
        """The input partitions of each process that has an endpoint."""
        self.lease = Lease()
        """Renewed by heartbeats; settled by those on whose arrival the coordinator surely waited for no release."""
        self._target: StreamsTasks | None = None
        self._adopting: StreamsTasks | None = None
        self._number = 0
        self._reported: StreamsTasks | None = None
        self._owes_report = False
        """An assignment came, and the coordinator may wait for lists without what it revoked."""
        self._owes_release = False
        """The coordinator waits for lists without what it revoked, at most for the rebalance timeout."""
        self._tell_all = True
        self._unsure = self._looking_up = self._dropping = False
        self._look_ms: int | None = None
        """When the assignment is looked up again, and the gap before that."""
        self._look_gap_ms = LOOK_FIRST_MS
        self._sent_ms: int | None = None
        self._sent_shutdown = self._shutdown = self._is_known = False
        self._due_ms: int | None = 0
        """When the next heartbeat is due; None: the answer to the one under way decides."""
        self._interval_ms = FIRST_INTERVAL_MS
        self._failures = self._releases = 0
        self._was_released = False
        """Whether the coordinator has answered that this member gives its place up, which no join can have taken since.
        """
        self._endpoint_epoch = NO_HOSTS
        self._awaited = AwaitedTasks()
        self._offsets = OffsetReports()
        self._offsets_interval_ms, self._acceptable_lag = 0, NO_WARM_UPS

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    def due_ms(self) -> int | None:
        """Return when a heartbeat is due; None while one is under way, or none is to be sent."""
        beats = self.state in (State.JOINING, State.MEMBER, State.CLOSING)
        if not beats or self._sent_ms is not None or self._looking_up:
            return None
        return self._due_ms

    def wants_positions(self, now_ms: int) -> bool:
        """Return whether the next heartbeat is to say how far the copies here are."""
        is_member = self._profile.reports_offsets and self.state is State.MEMBER
        return is_member and self._offsets.is_due(self._copies, self.owned.warmup, now_ms)

    @property
    def _copies(self) -> frozenset[TaskId]:
        return self.owned.standby | self.owned.warmup

    @property
    def is_certain(self) -> bool:
        """Whether ``epoch`` is the coordinator's: it changes with a heartbeat, and no answer to one is missing."""
        return self._sent_ms is None and not self._unsure

    def lease_ends_ms(self, session_timeout_ms: int) -> int | None:
        """Return until when the coordinator surely keeps this member; None while this is not a member."""
        return self.lease.ends_ms(session_timeout_ms, self._profile.rebalance_timeout_ms)

    @property
    def assigned(self) -> StreamsTasks:
        """Return the tasks of the last assignment handed out, whether or not its predecessor is released."""
        return self.owned if self._adopting is None else self._adopting

    @property
    def _held(self) -> StreamsTasks:
        """Return what may run here: while an assignment is adopted, also its tasks and those of the one that waits.

        A report without the new tasks would let the coordinator give them to another member at once, and those that
        wait may run before it arrives.
        """
        if self._adopting is None or self._target is None:
            return self.owned
        return self.owned.with_those_of(self._adopting).with_those_of(self._target)

    def leaving_request(self, *, comes_back: bool = True) -> StreamsHeartbeatRequest | None:
        """Return the heartbeat that takes a closed member out of the group; None if the group cannot know it.

        A static member that ``comes_back`` keeps its tasks until its session ends (version 1 only).
        """
        return self._leave(comes_back=comes_back) if self._is_known else None

    # --- heartbeats ------------------------------------------------------------------

    def _started(self, _event: Started, now_ms: int) -> list[Effect]:
        if self.state is State.UNJOINED:
            self.state, self._due_ms = State.JOINING, now_ms
        return []

    def _heartbeat_due(self, event: HeartbeatDue, now_ms: int) -> list[Effect]:
        due_ms = self.due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        self._sent_ms, self._due_ms = now_ms, None
        self._sent_shutdown, self._is_known = self._shutdown, True
        return [SendHeartbeat(self._with_positions(self._request(), event.positions, now_ms))]

    def _be_due(self, due_ms: int) -> None:
        """Send the next heartbeat then, unless it is due sooner: an event may have asked while one was under way."""
        self._due_ms = due_ms if self._due_ms is None else min(self._due_ms, due_ms)

    def _report_soon(self, now_ms: int) -> None:
        """Send a heartbeat at once, or once the one under way is answered; after a failure it is due soon anyway."""
        if self._failures == 0:
            self._be_due(now_ms)

    def _with_positions(
        self, request: StreamsHeartbeatRequest, positions: Positions | None, now_ms: int
    ) -> StreamsHeartbeatRequest:
        if positions is None or not self.wants_positions(now_ms):
            return request
        offsets, ends = self._offsets.report(
            positions, self._copies, self.owned.warmup, self._acceptable_lag, self._offsets_interval_ms, now_ms
        )
        return replace(request, task_offsets=offsets, task_end_offsets=ends)

    def _request(self) -> StreamsHeartbeatRequest:
        """Return a join with every field, or a heartbeat with those that the coordinator may not know."""
        profile = self._profile
        request = StreamsHeartbeatRequest(
            group_id=profile.group_id,
            member_id=profile.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=self._endpoint_epoch,
            instance_id=profile.instance_id,
            shutdown_application=self._shutdown,
        )
        is_settled = self._adopting is None
        if self._tell_all or self._reported != self._held or (self._owes_report and is_settled):
            self._reported = held = self._held
            self._owes_report = self._owes_report and not is_settled
            self._owes_release = self._owes_release and (not is_settled or self.state is State.CLOSING)
            request = replace(
                request,
                active_tasks=task_ids(held.active),
                standby_tasks=task_ids(held.standby),
                warmup_tasks=task_ids(held.warmup),
            )
        if self._tell_all:
            request = replace(
                request,
                rebalance_timeout_ms=profile.rebalance_timeout_ms,
                process_id=profile.process_id,
                rack_id=profile.rack,
                user_endpoint=None if profile.endpoint is None else Endpoint(*profile.endpoint),
                client_tags=profile.client_tags,
                topology=profile.topology if self.epoch == JOIN_EPOCH else None,
                endpoint_information_epoch=NO_HOSTS,
            )
            self._tell_all = False
        return request

    def _leave(self, *, comes_back: bool = True) -> StreamsHeartbeatRequest:
        profile = self._profile
        epoch = LEAVE_STATIC_EPOCH if profile.instance_id is not None and comes_back else LEAVE_EPOCH
        return StreamsHeartbeatRequest(
            profile.group_id,
            profile.member_id,
            epoch,
            instance_id=profile.instance_id,
            shutdown_application=self._shutdown,
        )

    # --- answers ---------------------------------------------------------------------

    def _answered(self, event: Answered, now_ms: int) -> list[Effect]:
        response, sent_ms, self._sent_ms = event.response, self._sent_ms, None
        if sent_ms is None or self.state is State.STALLED:
            return []
        if response.error_code:
            return [] if self.state is State.CLOSED else self._refused(response, now_ms)
        if response.member_epoch < 0:
            self._be_due(sent_ms + self._interval_ms)
            return []
        self.epoch = response.member_epoch
        self.lease.renew(sent_ms, settled=not (self._unsure or self._owes_release))
        if self.state is State.CLOSED:
            return []
        self._failures = 0
        lease_ms = min(self._profile.session_timeout_ms, self._profile.rebalance_timeout_ms)
        self._interval_ms = min(response.heartbeat_interval_ms, lease_ms // 3)
        self._be_due(sent_ms + self._interval_ms)
        if self._sent_shutdown:
            self._shutdown = False
        if self.state is State.CLOSING:
            self._owes_release = self._owes_release or self._unsure or response.active_tasks is not None
            self._unsure = False  # the epoch is known, and no tasks are adopted any more
            return []
        self.state, self._releases, self._was_released = State.MEMBER, 0, False
        self._offsets_interval_ms = response.task_offset_interval_ms
        self._acceptable_lag = response.acceptable_recovery_lag
        awaiting = self._look_for_awaited(response, sent_ms)
        self._endpoint_epoch = response.endpoint_information_epoch
        if response.partitions_by_user_endpoint is not None:
            self.hosts = response.partitions_by_user_endpoint
        effects = awaiting + self._heed_status(response.status)
        return effects + self._heed_tasks(response, now_ms) if self.state is State.MEMBER else effects

    def _refused(self, response: StreamsHeartbeatResponse, now_ms: int) -> list[Effect]:
        if response.error_code in AGAIN:
            return self._send_again(now_ms)
        lost = f"the group went on without this member: {response.error_message}"
        if response.error_code in FENCED or (response.error_code == GROUP_ID_NOT_FOUND and self.epoch != JOIN_EPOCH):
            self._is_known = response.error_code == FENCED_MEMBER_EPOCH
            return self._join_again(lost)
        if self.state is State.CLOSING:
            self.state = State.CLOSED
            return self._forget(lost) if response.error_code == FENCED_INSTANCE_ID else []
        is_full = response.error_code == GROUP_MAX_SIZE_REACHED
        if is_full or response.error_code == UNRELEASED_INSTANCE_ID:
            self._releases += self._was_released
            if self._releases < (1 if is_full else RELEASES_MAX):
                return self._release(now_ms, comes_back=not is_full)
        profile = self._profile
        end = self._end(refusal(profile.group_id, response.error_code, response.error_message, profile.instance_id))
        if response.error_code == FENCED_INSTANCE_ID and self.epoch != JOIN_EPOCH:
            return [*self._forget(lost), *end]
        return end

    def _release(self, now_ms: int, *, comes_back: bool) -> list[Effect]:
        """Give up the place that the group may still have for this member, then join again.

        It has one for a member that was killed, was fenced, or whose join was not answered. The coordinator (4.4.0)
        takes no join of a static member that it has already, not even with the same member id; one of 4.3.1 takes no
        join in a full group, where it counts before it looks. Another member's place is not touched by this.
        """
        self._was_released = False
        self._send_again(now_ms)
        return [SendLeave(self._leave(comes_back=comes_back))]

    def _leave_answered(self, event: LeaveAnswered, _now_ms: int) -> list[Effect]:
        """Note whether the group still knows this member: a static member that leaves temporarily keeps its place."""
        self._was_released = event.error_code not in AGAIN
        if self.state is State.STALLED:
            keeps_place = event.error_code == 0 and self._profile.instance_id is not None
            self._is_known = keeps_place or not self._was_released
        return []

    def _unanswered(self, _event: Unanswered, now_ms: int) -> list[Effect]:
        sent_ms, self._sent_ms = self._sent_ms, None
        self._was_released = False  # a join may have taken the place again
        if sent_ms is None:
            return []
        self._look_ms, self._look_gap_ms = now_ms + LOOK_FIRST_MS, LOOK_FIRST_MS
        return self._send_again(now_ms)

    def _send_again(self, now_ms: int) -> list[Effect]:
        """Report everything again, after a moment. What the coordinator has done meanwhile is not known."""
        self._tell_all = True
        self._offsets.forget()
        self._unsure = self._unsure or self.epoch != JOIN_EPOCH
        self._due_ms = now_ms + min(BACKOFF_MS << self._failures, BACKOFF_MAX_MS)
        self._failures = min(self._failures + 1, 10)
        return []

    def _look_for_awaited(self, response: StreamsHeartbeatResponse, sent_ms: int) -> list[Effect]:
        """Ask again soon while tasks are awaited."""
        target = NO_TASKS if self._target is None else self._target
        assigned = target.active if response.active_tasks is None else tasks_of(response.active_tasks)
        ended = self._awaited.look_for(assigned, sent_ms)
        if self._awaited.are_missing:
            self._be_due(sent_ms + min(AWAITING_INTERVAL_MS, self._interval_ms))
        return [] if ended is None else [ended]

    def _heed_status(self, status: tuple[GroupStatus, ...] | None) -> list[Effect]:
        if status is None or status == self.status:
            return []
        self.status = status
        details = {each.status_code: each.status_detail for each in status}
        effects: list[Effect] = [AnnounceStatus(status)]
        if SHUTDOWN_APPLICATION in details:
            return effects + self._close_for(ShutdownRequested("a member asked the whole application to shut down"))
        if (detail := details.get(INCORRECTLY_PARTITIONED_TOPICS)) is not None:
            return effects + self._close_for(TopologyMismatch(f"topics are partitioned wrongly: {detail}"))
        return effects

    # --- tasks -----------------------------------------------------------------------

    def _heed_tasks(self, response: StreamsHeartbeatResponse, now_ms: int) -> list[Effect]:
        lists = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
        active, standby, warmup = lists
        if active is not None and standby is not None and warmup is not None:
            return self._aim_at(tasks_by_role(active, standby, warmup), now_ms)
        if any(each is not None for each in lists):
            return self._close_for(BrokerError(UNREADABLE))
        if self._unsure or (self._look_ms is not None and now_ms >= self._look_ms):
            self._looking_up = True
            return [LookUpAssignment()]
        return []

    def _assignment_found(self, event: AssignmentFound, now_ms: int) -> list[Effect]:
        """Heed what was found of the present epoch; another epoch's is another answer's, which comes with its tasks."""
        if not self._looking_up:
            return []
        self._looking_up = False
        if event.tasks is None or event.epoch != self.epoch:
            return self._look_again(now_ms)
        self._look_later(now_ms)
        is_news = self._unsure or event.tasks != (self.owned if self._target is None else self._target)
        return self._aim_at(event.tasks, now_ms) if is_news else []

    def _look_later(self, now_ms: int) -> None:
        if self._look_ms is not None and now_ms >= self._look_ms:
            self._look_gap_ms *= LOOK_FACTOR
            self._look_ms = now_ms + self._look_gap_ms if self._look_gap_ms <= LOOK_LAST_MS else None

    def _lookup_failed(self, _event: LookupFailed, now_ms: int) -> list[Effect]:
        if not self._looking_up:
            return []
        self._looking_up = False
        return self._look_again(now_ms)

    def _look_again(self, now_ms: int) -> list[Effect]:
        """A look-up brought nothing: look again soon if an answer is missing, else with a later heartbeat."""
        if self._unsure:
            self._due_ms = now_ms + BACKOFF_MS
        else:
            self._look_ms = now_ms + self._interval_ms
        return []

    def _aim_at(self, target: StreamsTasks, now_ms: int) -> list[Effect]:
        self._owes_release = self._owes_release or self._held.with_those_of(target) != target
        self._unsure, self._target, self._owes_report = False, target, True
        return [] if self._adopting is not None else self._reconcile(now_ms)

    def _reconcile(self, now_ms: int) -> list[Effect]:
        """Report at once what is owned now, and hand the newest assignment out.

        It is reported also if the newest assignment is what is owned: one that came and was taken back while the one
        before was being adopted is never handed out, and the coordinator waits for its tasks all the same.
        """
        self._report_soon(now_ms)
        if self._target in (None, self.owned):
            return []
        assert self._target is not None
        self._adopting = self._target
        self._number += 1
        return [AdoptTasks(self._number, self.epoch, self._adopting)]

    def _released(self, event: TasksReleased, now_ms: int) -> list[Effect]:
        """Own the new assignment, and report so at once: another member may wait for what was released."""
        if self._adopting is None or event.generation != self._number or self.state is not State.MEMBER:
            return []
        self.owned, self._adopting = self._adopting, None
        return self._reconcile(now_ms)

    def _lost(self, event: MembershipLost, _now_ms: int) -> list[Effect]:
        """A commit was refused, or came too late: drop everything and join again, which the coordinator allows.

        What is answered to a heartbeat that is under way concerns the membership that was lost.
        """
        if self.state is not State.MEMBER:
            return []
        self._sent_ms = None
        return self._join_again(event.reason)

    def _join_again(self, reason: str) -> list[Effect]:
        """Join again once the tasks are dropped: under the next epoch the brokers would take what is left of them.

        A member that is closing only drops them.
        """
        self.state, self._failures = State.CLOSED if self.state is State.CLOSING else State.FENCED, 0
        return self._forget(reason)

    def _dropped(self, _event: TasksDropped, now_ms: int) -> list[Effect]:
        self._dropping = False
        if self.state is State.FENCED:
            self.state, self._due_ms = State.JOINING, now_ms
        return []

    def _forget(self, reason: str) -> list[Effect]:
        self.epoch = JOIN_EPOCH
        self.lease.end()
        self.owned, self._target, self._adopting, self._reported = NO_TASKS, None, None, None
        self._tell_all, self._unsure, self._looking_up = True, False, False
        self._owes_report = self._owes_release = False
        self._offsets.forget()
        self._dropping = True
        return [DropAll(reason)]

    # --- what the process asks for -----------------------------------------------------

    def _tasks_awaited(self, event: TasksAwaited, now_ms: int) -> list[Effect]:
        """Await these tasks, too. A member asks for them at once, unless its last heartbeat failed."""
        self._awaited.add(event.tasks)
        if self.state is State.MEMBER:
            self._report_soon(now_ms)
        return []

    def _call_stalled(self, _event: CallStalled, _now_ms: int) -> list[Effect]:
        if self.state not in (State.JOINING, State.MEMBER, State.FENCED, State.CLOSING):
            return []
        leave: list[Effect] = [SendLeave(self._leave())] if self._is_known else []
        drop = [] if self._dropping else self._forget(STALLED)
        self.state, self._sent_ms = State.CLOSED if self.state is State.CLOSING else State.STALLED, None
        return leave + drop

    def _call_returned(self, _event: CallReturned, now_ms: int) -> list[Effect]:
        if self.state is State.STALLED:
            self.state, self._due_ms = State.FENCED if self._dropping else State.JOINING, now_ms
        return []

    def _shutdown_asked(self, _event: ShutdownAsked, now_ms: int) -> list[Effect]:
        self._shutdown = True
        self._be_due(now_ms)
        return []

    def _close_asked(self, _event: CloseAsked, _now_ms: int) -> list[Effect]:
        """Keep the place in the group while tasks run; adopt nothing more. ``leaving_request`` ends it.

        Without heartbeats, a call that outlasts the session would lose its commit, and others would run its tasks.
        """
        if self.state in (State.MEMBER, State.CLOSING):
            self.state, self._looking_up = State.CLOSING, False
        else:
            self.state = State.CLOSED
        return []

    def _close_for(self, cause: KStreamsAssignError) -> list[Effect]:
        """End a member that the coordinator has just accepted: close as if the process had asked for it."""
        self.state, self._unsure, self._owes_release = State.CLOSING, False, True  # the answer may take tasks away
        return [EndMembership(cause)]

    def _end(self, cause: KStreamsAssignError) -> list[Effect]:
        """End a member that the coordinator refuses: no heartbeat would keep its place."""
        self.state = State.CLOSED
        return [EndMembership(cause)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Started: _started,
        HeartbeatDue: _heartbeat_due,
        Answered: _answered,
        Unanswered: _unanswered,
        LeaveAnswered: _leave_answered,
        AssignmentFound: _assignment_found,
        LookupFailed: _lookup_failed,
        TasksReleased: _released,
        MembershipLost: _lost,
        TasksDropped: _dropped,
        TasksAwaited: _tasks_awaited,
        CallStalled: _call_stalled,
        CallReturned: _call_returned,
        ShutdownAsked: _shutdown_asked,
        CloseAsked: _close_asked,
    }
