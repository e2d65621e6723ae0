"""What the engine asks a shell to do. A shell handles every kind; ``assert_never`` makes a type checker prove it.

A task's stores are either in the hands of the processing loop or in those of the restore thread. ``RestoreTask``,
``TailTask``, ``RepairTask`` and ``CloseTask`` pass them to the restore thread, if the loop has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.errors import StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.group import member
from kstreams_assign.group.values import Adopted, WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd

Inputs = tuple[TopicPartition, ...]


# --- folders and stores ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LockFolder:
    """Lock the folder of a task, so that the state cleaner leaves it alone."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """Release the folder of a task whose stores are closed."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class QueueWarmups:
    """Restore warm-ups in this order from now on; None: all at once."""

    queue: WarmupQueue | None


@dataclass(frozen=True, slots=True)
class RestoreTask:
    """Restore an active task to the end of its changelogs, look up its input positions, and report ``Restored``."""

    task: TaskId
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class RepairTask:
    """As ``RestoreTask``, for stores that failed with this error."""

    task: TaskId
    inputs: Inputs
    error: StateError


@dataclass(frozen=True, slots=True)
class TailTask:
    """Keep a standby or warm-up up to date."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class CloseTask:
    """Stop reading the changelogs of a task, close its stores, and report ``Closed`` with this number.

    While the stores are on their way to the loop there is nothing to close: another ``CloseTask`` follows with them.
    """

    task: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class ReportStore:
    """Report the offsets of the stores of a task that no longer runs in the next join."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class ReportNothing:
    """Report no offsets of a task: its stores cannot be relied on."""

    task: TaskId


# --- work -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunTask:
    """Read the inputs of a restored task from their positions, and process its records."""

    task: TaskId
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class StopInput:
    """Read no more input of a task that is to be released; what is processed will be committed."""

    task: TaskId
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop processing a task, and forget what of its work is not committed."""

    task: TaskId
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class DiscardWork:
    """These tasks go back to their last commit; ``StopTask`` came before."""

    tasks: Sequence[TaskId]
    reason: str


# --- commits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginCommit:
    """Commit what all running tasks have processed, and report ``CommitEnded``, at once if there is nothing."""


@dataclass(frozen=True, slots=True)
class AbandonCommit:
    """Forget the commit under way, which will not be reported."""


@dataclass(frozen=True, slots=True)
class FinishCommit:
    """The commit is over: keep the offsets of a deferred one for the next, and let go of what it held."""

    end: CommitEnd


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """Exactly once: commit the partition times of these running tasks again, outside a transaction, as Java does."""

    tasks: Sequence[TaskId]


# --- reports ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TellMember:
    """Give this event to the member's machine (``group.member``)."""

    event: member.Event


@dataclass(frozen=True, slots=True)
class AnnounceAdoption:
    """An assignment is adopted; ``left`` and ``came`` are its differences to the one before."""

    generation: int
    adopted: Adopted
    left: Sequence[TaskId]
    came: Sequence[TaskId]


@dataclass(frozen=True, slots=True)
class AnnounceFailure:
    """A task failed and is restored after a pause."""

    task: TaskId
    reason: str
    pause_ms: int


@dataclass(frozen=True, slots=True)
class AnnounceLoss:
    """All tasks are dropped: the group went on without this member."""

    reason: str


@dataclass(frozen=True, slots=True)
class StopWork:
    """Nothing will be processed or committed any more; ``CloseTask`` follows for each task."""


@dataclass(frozen=True, slots=True)
class EndLoop:
    """All tasks are sent to be closed: the loop ends."""


HandOver = RestoreTask | RepairTask | TailTask | CloseTask
"""What passes the stores of a task to the restore thread."""

Effect = (
    LockFolder
    | ReleaseFolder
    | QueueWarmups
    | RestoreTask
    | RepairTask
    | TailTask
    | CloseTask
    | ReportStore
    | ReportNothing
    | RunTask
    | StopInput
    | StopTask
    | DiscardWork
    | BeginCommit
    | AbandonCommit
    | FinishCommit
    | CommitTimes
    | TellMember
    | AnnounceAdoption
    | AnnounceFailure
    | AnnounceLoss
    | StopWork
    | EndLoop
)
