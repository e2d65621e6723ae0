"""What a member of a streams group hears and what it asks for: the events and effects of ``streams_membership``."""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign.engine.membership import ShutdownAsked
from kstreams_assign.engine.streams_offsets import Positions
from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.member import CloseAsked, DropAll, MembershipLost, Started, TasksReleased
from kstreams_assign.model import TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import GroupStatus
from kstreams_assign.wire.streams_structs import TaskIds, tasks_of


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks by their role."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    def with_those_of(self, other: StreamsTasks) -> StreamsTasks:
        """Return the tasks of both."""
        return StreamsTasks(self.active | other.active, self.standby | other.standby, self.warmup | other.warmup)


NO_TASKS = StreamsTasks()


def tasks_by_role(active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds]) -> StreamsTasks:
    """Return the tasks of the protocol's rows. Raises ``MalformedUserData`` as ``tasks_of``."""
    return StreamsTasks(tasks_of(active), tasks_of(standby), tasks_of(warmup))


# --- events ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """``due_ms`` has come. ``positions``: of the copies here, if ``wants_positions``; None: not looked up."""

    positions: Positions | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The coordinator answered the heartbeat under way, perhaps with an error code."""

    response: StreamsHeartbeatResponse


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer came to the heartbeat under way; the coordinator may have acted on it."""


@dataclass(frozen=True, slots=True)
class LeaveAnswered:
    """The coordinator answered ``SendLeave``; 0: it took it."""

    error_code: int


@dataclass(frozen=True, slots=True)
class AssignmentFound:
    """The look-up was answered: this member's tasks at ``epoch``. None: it is not a member."""

    epoch: int
    tasks: StreamsTasks | None


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The look-up was not answered."""


@dataclass(frozen=True, slots=True)
class TasksDropped:
    """``DropAll`` is carried out: nothing of the lost membership runs, or is on its way, any more."""


@dataclass(frozen=True, slots=True)
class TasksAwaited:
    """These active tasks should come to this member soon: their state is here, or will be."""

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class CallStalled:
    """A call of the user's function takes too long."""


@dataclass(frozen=True, slots=True)
class CallReturned:
    """That call has returned."""


Event = (
    Started
    | HeartbeatDue
    | Answered
    | Unanswered
    | LeaveAnswered
    | AssignmentFound
    | LookupFailed
    | TasksReleased
    | MembershipLost
    | TasksDropped
    | TasksAwaited
    | CallStalled
    | CallReturned
    | ShutdownAsked
    | CloseAsked
)

# --- effects -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send this, then report ``Answered`` or ``Unanswered``."""

    request: StreamsHeartbeatRequest


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send this once, and report ``LeaveAnswered`` if an answer comes."""

    request: StreamsHeartbeatRequest


@dataclass(frozen=True, slots=True)
class LookUpAssignment:
    """Ask the coordinator which tasks this member has, then report ``AssignmentFound`` or ``LookupFailed``."""


@dataclass(frozen=True, slots=True)
class AdoptTasks:
    """Take over these tasks; report ``TasksReleased(number)`` once every task that is not among them is released."""

    number: int
    epoch: int
    tasks: StreamsTasks


@dataclass(frozen=True, slots=True)
class AnnounceStatus:
    """What keeps the group from working has changed; empty: nothing any more."""

    status: tuple[GroupStatus, ...]


@dataclass(frozen=True, slots=True)
class AwaitingEnded:
    """The awaited tasks have come, but for the ``missing`` ones."""

    awaited: frozenset[TaskId]
    missing: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class EndMembership:
    """This member ends with this error: close its tasks, then leave. Heartbeats that are due are sent until then."""

    cause: KStreamsAssignError


Effect = (
    SendHeartbeat | SendLeave | LookUpAssignment | AdoptTasks | DropAll | AnnounceStatus | AwaitingEnded | EndMembership
)
