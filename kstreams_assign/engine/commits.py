"""The steps of one commit after another: which comes next, what the end means for each task, what follows a failure.

``Commits.handle(event)`` returns effects, which a shell carries out in order. The shell takes each step and reports its
outcome with ``StepEnded``, at once or later. ``tasks.commit`` has the order of the steps. When a commit begins, and
what its end does to the tasks, is decided in ``tasks``.

Exactly once, the producer is prepared between two commits for as long as something of a failed commit, or of a
predecessor, may be open at the broker: a process that restores these tasks waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.commit import CommitEnd, CommitStep, Outcome, next_step

CALL_MS = 10_000
"""How long each call of a transaction is tried."""

HUNG_MS = CALL_MS + 2_000
"""Treat a client call that is older than this as hung."""

RESTARTS_MAX = 3
"""How often a transaction is begun again; each time a rebalance has ended meanwhile."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitBegun:
    """The shell has taken what these tasks have processed; they may be none."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step has an outcome. ``number`` is that of its ``TakeStep``, ``reason`` says why it did not succeed.

    ``unwritten``: tasks whose stores could not be written. They alone go on from the commit before.
    """

    number: int
    outcome: Outcome
    reason: str = ""
    unwritten: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitAbandoned:
    """The tasks are no longer this process's: the commit under way, if there is one, is to be forgotten."""


@dataclass(frozen=True, slots=True)
class WorkDiscarded:
    """Tasks go back to their last commit. They may leave without another one."""


@dataclass(frozen=True, slots=True)
class ProducerUnsettled:
    """The producer of transactions has to be prepared."""


@dataclass(frozen=True, slots=True)
class PreparationEnded:
    """``PrepareProducer`` is carried out, with success or without."""


@dataclass(frozen=True, slots=True)
class CallUnderWay:
    """A call of the client, for a step or for ``PrepareProducer``, has not returned for so long."""

    ms: float


Event = CommitBegun | StepEnded | CommitAbandoned | WorkDiscarded | ProducerUnsettled | PreparationEnded | CallUnderWay

# --- effects ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakeStep:
    """Take this step of the commit under way, and report ``StepEnded`` with this number."""

    step: CommitStep
    number: int


@dataclass(frozen=True, slots=True)
class DropRecords:
    """Send no more records, those sent ahead of a commit included. Those that have left may arrive.

    What running tasks have sent ahead has to be sent again.
    """


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Abort what an abandoned commit has begun, after the call that may be under way."""


@dataclass(frozen=True, slots=True)
class PrepareProducer:
    """Fence a predecessor's transaction and abort what is open, then report ``PreparationEnded``."""


@dataclass(frozen=True, slots=True)
class LeaveClient:
    """Leave the call under way behind, and go on with another client."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceAbort:
    """The transaction of these tasks is aborted."""

    tasks: tuple[TaskId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceRestart:
    """The transaction of these tasks is aborted, and begun again with the same records."""

    tasks: tuple[TaskId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class EndCommit:
    """The commit is over: report this to ``tasks``."""

    ended: CommitEnded


Effect = (
    TakeStep
    | DropRecords
    | AbortTransaction
    | PrepareProducer
    | LeaveClient
    | AnnounceAbort
    | AnnounceRestart
    | EndCommit
)


def refused_offsets(*, lost: bool, joins: bool) -> Outcome:
    """Return what it means that the group has refused a transaction's offsets.

    ``lost``: the membership was lost since the commit began. ``joins``: the member joins again, or has done so since it
    sent them. A generation that ends by a join of this very member leaves it its tasks.
    """
    return Outcome.STALE if joins and not lost else Outcome.REFUSED


class Commits:
    """The machine. At most one commit is under way."""

    def __init__(self, *, exactly_once: bool) -> None:
        self._exactly_once = exactly_once
        self._step: CommitStep | None = None
        self._number = self._restarts = 0
        self._preparing = self._drops_at_end = False
        self._reason = ""
        self.tasks: tuple[TaskId, ...] = ()
        """The tasks of the last commit begun."""
        self.unwritten: frozenset[TaskId] = frozenset()
        """Those of them whose stores could not be written: their offsets do not count."""

    @property
    def busy(self) -> bool:
        """Whether a commit is under way."""
        return self._step is not None

    def handle(self, event: Event) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event)

    # --- the walk -------------------------------------------------------------------

    def _begun(self, event: CommitBegun) -> list[Effect]:
        self.tasks, self.unwritten, self._reason, self._restarts = event.tasks, frozenset(), "", 0
        return [self._take(CommitStep.LEASE)] if event.tasks else self._end(CommitEnd.DONE)

    def _take(self, step: CommitStep) -> TakeStep:
        self._step = step
        self._number += 1
        return TakeStep(step, self._number)

    def _step_ended(self, event: StepEnded) -> list[Effect]:
        """Go on. An abort that fails leaves its transaction to ``PrepareProducer``, and the commit goes on."""
        step = self._step
        if step is None or event.number != self._number:
            return []
        aborting = step in (CommitStep.ABORT, CommitStep.WITHDRAW, CommitStep.RESTART)
        outcome = Outcome.OK if aborting else event.outcome
        if outcome is Outcome.STALE and self._restarts == RESTARTS_MAX:
            outcome = Outcome.UNDELIVERED
        if not aborting:  # why it is aborted is known
            self._reason = event.reason or self._reason
        self.unwritten |= event.unwritten
        effects: list[Effect] = []
        if outcome is Outcome.EXPIRED:
            effects.append(DropRecords())
        following = next_step(step, outcome, exactly_once=self._exactly_once)
        if isinstance(following, CommitEnd):
            return [*effects, *self._end(following)]
        if following in (CommitStep.ABORT, CommitStep.WITHDRAW):
            effects.append(AnnounceAbort(self.tasks, self._reason))
        if following is CommitStep.RESTART:
            effects.append(AnnounceRestart(self.tasks, self._reason))
            self._restarts, self._reason = self._restarts + 1, ""
        return [*effects, self._take(following)]

    def _end(self, end: CommitEnd) -> list[Effect]:
        self._step = None
        failed = self.tasks if end is CommitEnd.FAILED else tuple(t for t in self.tasks if t in self.unwritten)
        drops = self._drops_at_end or (end is CommitEnd.FAILED and not self._exactly_once)
        self._drops_at_end = False
        dropped: list[Effect] = [DropRecords()] if drops else []
        return [*dropped, EndCommit(CommitEnded(end, self.tasks, failed, self._reason))]

    def _abandoned(self, _event: CommitAbandoned) -> list[Effect]:
        self._step, self._drops_at_end = None, False
        return [DropRecords(), AbortTransaction()] if self._exactly_once else [DropRecords()]

    def _discarded(self, _event: WorkDiscarded) -> list[Effect]:
        """Drop what was sent ahead: no commit waits for it, and it could arrive after outputs of the next owner.

        The commit under way ends first, as its records would be dropped, too.
        """
        if self._exactly_once:  # nothing is sent ahead
            return []
        self._drops_at_end = self.busy
        return [] if self.busy else [DropRecords()]

    # --- between two commits ----------------------------------------------------------

    def _unsettled(self, _event: ProducerUnsettled) -> list[Effect]:
        if self.busy or self._preparing:
            return []
        self._preparing = True
        return [PrepareProducer()]

    def _prepared(self, _event: PreparationEnded) -> list[Effect]:
        self._preparing = False
        return []

    def _call_under_way(self, event: CallUnderWay) -> list[Effect]:
        """Give up a call that will not return: a client may hang in one for ever, whatever its timeout is."""
        if event.ms < HUNG_MS:
            return []
        self._preparing = False
        reason = f"the Kafka client has not returned from a call for {HUNG_MS // 1000} s; another client takes over"
        return [LeaveClient(reason), *self._step_ended(StepEnded(self._number, Outcome.UNDELIVERED, reason))]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        CommitBegun: _begun,
        StepEnded: _step_ended,
        CommitAbandoned: _abandoned,
        WorkDiscarded: _discarded,
        ProducerUnsettled: _unsettled,
        PreparationEnded: _prepared,
        CallUnderWay: _call_under_way,
    }
