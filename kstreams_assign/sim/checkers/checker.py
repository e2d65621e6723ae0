"""What a checker is: it sees the events of a simulation, and reports what violates its invariant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kstreams_assign.engine.streams_events import StreamsTasks
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.leader import DecisionInput
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.model import TaskId, TopicPartition

if TYPE_CHECKING:
    from kstreams_assign.sim.committing import Share
    from kstreams_assign.sim.outputs import Outputs
    from kstreams_assign.sim.process import Process
    from kstreams_assign.sim.world import World


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold. ``at_ms`` counts from the start."""

    seed: int
    invariant: str
    detail: str
    at_ms: int


class Checker:
    """The events of a simulation. ``violated`` takes violations."""

    invariant: ClassVar[str]

    def __init__(self) -> None:
        self.world: World
        self.violated: Callable[[str, str], None]

    def report_violation(self, detail: str) -> None:
        self.violated(self.invariant, detail)

    def reported(self, process: Process, report: MemberReport) -> None:
        """A JoinGroup leaves with this user-data."""

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: DecisionInput, decision: Decision
    ) -> None:
        """The leader decided."""

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        """An assignment arrived."""

    def locked(self, process: Process, generation: int) -> None:
        """The folders of an assignment's tasks are locked."""

    def released(self, process: Process) -> None:
        """The rebalance is over for a member of a classic group: it releases the report mutex."""

    def lost(self, process: Process) -> None:
        """The member noticed that it is out of the group, or its process ended."""

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        """A task begins to be processed."""

    def stopped(self, process: Process, task: TaskId) -> None:
        """A task is no longer processed."""

    def appended(self, process: Process, task: TaskId, before: int, work: int) -> None:
        """A changelog takes records; ``before``, ``work``: the input offset up to which it held and holds results."""

    def sent(self, process: Process, outputs: Outputs) -> None:
        """An output topic takes records, at least once."""

    def transacted(self, process: Process, shares: Sequence[Share]) -> None:
        """A transaction is committed with these results; ``appended`` follows for each."""

    def stored(self, process: Process, task: TaskId, at: int, work: int) -> None:
        """A store takes the writes of a commit, up to this offset of its changelog, results up to this of its input."""

    def unwritten(self, process: Process, task: TaskId) -> None:
        """A store could not take the writes of a commit."""

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """The coordinator accepts a commit, which is stored after all checkers have seen it."""

    def cleaned(self, process: Process, task: TaskId) -> None:
        """The cleaner has removed a folder."""

    def asked_early(self, process: Process) -> None:
        """A member asks for a rebalance because of the progress of replicas (early probing)."""

    def answered(self, member: str, owned: StreamsTasks | None, given: StreamsTasks) -> None:
        """The coordinator of a streams group accepts a heartbeat: what it says is ``owned``, and what is ``given`` now.

        None: it does not say what is owned.
        """

    def moved(self) -> None:
        """The group has moved to another broker. It is as last persisted."""

    def removed(self, member: str) -> None:
        """The coordinator of a streams group removes a member that left, or was silent."""

    def refused(self, process: Process) -> None:
        """A member learns that its tasks will not be warmed up elsewhere; ``drained`` follows."""

    def drained(self, process: Process) -> None:
        """A drain is over: the process leaves now."""


HOOKS = tuple(
    name for name in vars(Checker) if not name.startswith("_") and name not in ("invariant", "report_violation")
)


class Watch:
    """Passes each event to the checkers that override its hook."""

    def __init__(self, seed: int, checkers: Sequence[Checker]) -> None:
        self._seed = seed
        self._checkers = checkers
        self.violations: list[Violation] = []
        for name in HOOKS:
            overriding = [
                getattr(checker, name)
                for checker in checkers
                if getattr(type(checker), name) is not getattr(Checker, name)
            ]
            setattr(self, name, _all_of(overriding))

    def __getattr__(self, name: str) -> Any:
        """Exists for the type checker: the constructor sets the hooks."""
        raise AttributeError(name)

    def connect(self, world: World) -> None:
        self._world = world
        for checker in self._checkers:
            checker.world, checker.violated = world, self.violated

    def violated(self, invariant: str, detail: str) -> None:
        from kstreams_assign.sim.timeline import START_MS

        at_ms = self._world.timeline.now_ms - START_MS
        self.violations.append(Violation(self._seed, invariant, detail, at_ms))
        self._world.log("VIOLATED", None, f"{invariant}: {detail}")


def _all_of(calls: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def call(*facts: object) -> None:
        for hook in calls:
            hook(*facts)

    return calls[0] if len(calls) == 1 else call
