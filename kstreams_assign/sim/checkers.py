"""The invariants, a checker for each. Checkers see events and keep records of their own.

A checker never asks the parts that it judges: it relies on what crossed the wire and what was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kstreams_assign.engine.streams_events import StreamsTasks
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.leader import DecisionInput, place_tasks
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.log_lines import names
from kstreams_assign.sim.member import NO_GENERATION
from kstreams_assign.sim.membership import classic
from kstreams_assign.sim.reading import read_group

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

    def stored(self, process: Process, task: TaskId, at: int) -> None:
        """A store takes the writes of a commit, up to this offset of its changelog."""

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


class OneOwner(Checker):
    """In a generation a task has one owner, and no member begins it while another of that generation runs it."""

    invariant = "one active owner per task and generation"

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[tuple[int, TaskId], str] = {}
        self._running: dict[TaskId, set[Process]] = {}

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        for task in adopted.active:
            owner = self._given.setdefault((generation, task), process.membership.client.member_id)
            if owner != process.membership.client.member_id and process.instance_id is None:
                self.report_violation(
                    f"generation {generation} gives {task} to {owner} and {process.membership.client.member_id}"
                )

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        others = self._running.setdefault(task, set())
        for other in others - {process} if _may_commit(self.world, process, task) else ():
            if _may_commit(self.world, other, task):
                self.report_violation(
                    f"{process.run.name} begins {task} while {other.run.name} runs it, and both may commit"
                )
        others.add(process)

    def stopped(self, process: Process, task: TaskId) -> None:
        self._running.get(task, set()).discard(process)

    def lost(self, process: Process) -> None:
        for running in self._running.values():
            running.discard(process)


def _may_commit(world: World, process: Process, task: TaskId) -> bool:
    client = process.membership.client
    return world.group.may_commit(client.member_id, client.generation, task)


def is_of_this_generation(world: World, process: Process) -> bool:
    """Return whether a process is a member in the present generation of a classic group."""
    client = process.membership.client
    return world.coordinator.is_present(client.member_id, client.generation)


class FencedIsSilent(Checker):
    """Once a member has begun a task, its changelog takes no records of the previous owner.

    A member that is out of the group may begin a task before it drops all, as long as it writes nothing. It may have
    sent its next JoinGroup by then, but a member without a generation owns no task.
    """

    invariant = "no processing and no commit by a fenced member"

    def __init__(self) -> None:
        super().__init__()
        self._began: dict[TaskId, Process] = {}
        self._works: dict[TaskId, int] = {}

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        client = process.membership.client
        if self.world.group.owns(client.member_id, task) and client.generation != NO_GENERATION:
            self._began[task] = process
            self._works[task] = min(at.values())

    def appended(self, process: Process, task: TaskId, before: int, work: int) -> None:
        owner = self._began.get(task)
        if owner is not process:
            name = owner.run.name if owner else "no process"
            self.report_violation(
                f"{process.run.name} writes to the changelog of {task} (at {work}); {name} owns it now"
            )
        elif work < self._works[task]:
            self.report_violation(
                f"{process.run.name} sets {task} back from {self._works[task]} to {work} (it was at {before})"
            )
        else:
            self._works[task] = work

    def sent(self, process: Process, outputs: Outputs) -> None:
        if (owner := self._began.get(outputs.task)) is not process:
            name = owner.run.name if owner else "no process"
            self.report_violation(f"{process.run.name} sends outputs of {outputs.task}; {name} owns it now")


class PromisesKept(Checker):
    """State that was reported for a join stays until the assignment is locked or the member leaves."""

    invariant = "no state deleted under a reported lag"

    def __init__(self) -> None:
        super().__init__()
        self._promised: dict[Process, Mapping[TaskId, int]] = {}

    def reported(self, process: Process, report: MemberReport) -> None:
        self._promised[process] = report.task_offset_sums

    def locked(self, process: Process, generation: int) -> None:  # noqa: ARG002
        self._promised.pop(process, None)

    def lost(self, process: Process) -> None:
        self._promised.pop(process, None)

    def cleaned(self, process: Process, task: TaskId) -> None:
        leaving = classic(process).machine.state is State.CLOSED
        if task in self._promised.get(process, ()) and not leaving:
            self.report_violation(f"{process.run.name} reported {task} and removed it before the assignment was locked")


class WarmupsWithin(Checker):
    """A decision has at most the allowed warm-ups; with a queue, each process restores at most so many at once.

    A queue needs the trailer in each process, so a group with a Java member has none, whatever the setting says.
    """

    invariant = "warm-ups within the limit"

    def decided(
        self,
        process: Process,  # noqa: ARG002
        members: Sequence[JoinedMember],
        question: DecisionInput,
        decision: Decision,
    ) -> None:
        limit = question.config.max_warmup_replicas
        count = sum(len(placed.warmup) for placed in decision.placements.values())
        if count > limit and not (question.warmup_queue and _all_are_python_members(members)):
            self.report_violation(f"{count} warm-ups, but max_warmup_replicas is {limit}")

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        queue, limit = adopted.queue, self.world.config.max_warmup_replicas
        if queue is not None and queue.at_once > max(1, limit):
            self.report_violation(
                f"{process.run.name} may restore {queue.at_once} at once in generation {generation}, not {limit}"
            )
        if not self.world.scenario.warmup_queue and sum(map(len, adopted.warmups.values())) > limit:
            self.report_violation(
                f"generation {generation} has {sum(map(len, adopted.warmups.values()))} warm-ups, not {limit}"
            )


def _all_are_python_members(members: Sequence[JoinedMember]) -> bool:
    return not read_group(members).foreign


class OffsetsGoOn(Checker):
    """Committed offsets never go back, and never exceed the results in the changelog."""

    invariant = "offsets never go back"

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        logs = self.world.logs
        for partition, offset in offsets.items():
            before = logs.committed.get(partition, 0)
            if offset < before:
                self.report_violation(f"{member} sets the offset of {partition} back from {before} to {offset}")
            task = TaskId(0, partition.partition)
            if partition.topic == self.world.shape.subtopologies[0].sources[0] and offset > logs.works[task]:
                self.report_violation(
                    f"{member} commits {partition} at {offset}, but its changelog has {logs.works[task]}"
                )


class OutputsComplete(Checker):
    """At least once, input is committed only after its outputs; no output is left out, some may be sent again."""

    invariant = "committed input has its outputs"

    def __init__(self) -> None:
        super().__init__()
        self._reached: dict[TopicPartition, int] = {}

    def _reach(self, partition: TopicPartition) -> int:
        return self._reached.get(partition, self.world.logs.firsts.get(partition, 0))

    def sent(self, process: Process, outputs: Outputs) -> None:
        if outputs.first > (reached := self._reach(outputs.partition)):
            self.report_violation(
                f"{process.run.name} sends outputs of {outputs.partition} from {outputs.first} on; they reach {reached}"
            )
        self._reached[outputs.partition] = max(reached, outputs.end)

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.world.scenario.exactly_once:
            return
        for partition, offset in offsets.items():
            if offset > (reached := self._reach(partition)):
                self.report_violation(f"{member} commits {partition} at {offset}, and its outputs reach {reached}")


class NoWorkLost(Checker):
    """A member that begins a task, and may commit, has its whole changelog with the results of all committed input."""

    invariant = "a task begins with all of its state"

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        logs = self.world.logs
        if task not in logs.ends or not _may_commit(self.world, process, task):
            return
        held = sum(process.disk.folders[task].values())
        if held < logs.firm[task]:
            self.report_violation(f"{process.run.name} begins {task} at {held} of {logs.firm[task]}")
        if held > max([logs.firm[task], *(logs.readable[p] for p in process.disk.folders[task])]):
            self.report_violation(f"{process.run.name} begins {task} at {held}, with results that are not committed")
        if max(at.values()) > logs.works[task]:
            self.report_violation(f"{process.run.name} begins {task} after input whose results are lost")


class OnceOnly(Checker):
    """Exactly once, committed transactions continue each other: no input has its results twice, and none is skipped."""

    invariant = "each input has its results once"

    def __init__(self) -> None:
        super().__init__()
        self._reached: dict[TopicPartition, int] = {}

    def transacted(self, process: Process, shares: Sequence[Share]) -> None:
        for share in shares:
            for partition, first in share.firsts.items():
                if first != (reached := self._reach(partition)):
                    self.report_violation(
                        f"{process.run.name} commits results of {partition} from {first} on; they reach {reached}"
                    )
                self._reached[partition] = share.offsets[partition]

    def _reach(self, partition: TopicPartition) -> int:
        return self._reached.get(partition, self.world.logs.firsts.get(partition, 0))

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        if self.world.scenario.exactly_once and _may_commit(self.world, process, task):
            for partition, offset in at.items():
                if offset != (reached := self._reach(partition)):
                    self.report_violation(
                        f"{process.run.name} begins {task} at {offset} of {partition}; its results reach {reached}"
                    )


class StoresFollow(Checker):
    """A store takes nothing that is not committed in its changelog, and nothing behind a write that failed."""

    invariant = "a store follows its changelog"

    def __init__(self) -> None:
        super().__init__()
        self._holes: set[tuple[Process, TaskId]] = set()

    def unwritten(self, process: Process, task: TaskId) -> None:
        self._holes.add((process, task))

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        self._holes.discard((process, task))

    def stored(self, process: Process, task: TaskId, at: int) -> None:
        if (process, task) in self._holes:
            self.report_violation(f"{process.run.name} stores {task} up to {at}, and not what comes before")
        if at > (firm := self.world.logs.firm[task]):
            self.report_violation(f"{process.run.name} stores {task} up to {at}, committed are {firm}")


class DrainedAreIdle(Checker):
    """A process leaves after a drain only once it runs no task, unless the drain was refused."""

    invariant = "a drained process has no task"

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[Process, set[TaskId]] = {}

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        self._running.setdefault(process, set()).add(task)

    def stopped(self, process: Process, task: TaskId) -> None:
        self._running.get(process, set()).discard(task)

    def refused(self, process: Process) -> None:
        self._running.pop(process, None)

    def drained(self, process: Process) -> None:
        if running := self._running.get(process):
            self.report_violation(f"{process.run.name} leaves and still runs {names(running)}")


class SameOnEveryLeader(Checker):
    """Each member that knows the last round would decide the same. Checks every third decision.

    A member of the other kind is asked first: a Java leader and ours decide alike, except while a process drains. Only
    our leader reads that, and plans for it.
    """

    invariant = "decisions equal on whichever member leads"

    def __init__(self) -> None:
        super().__init__()
        self._decisions = 0

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: DecisionInput, decision: Decision
    ) -> None:
        self._decisions += 1
        if self._decisions % 3 or classic(process).adopted is None:
            return
        joined = {member.member_id for member in members}
        others = [p for p in self.world.processes if p is not process and _knows_as_much(p, process)]
        others = [p for p in others if p.membership.client.member_id in joined]
        if not others:
            return
        other = min(others, key=lambda p: p.kind is process.kind)
        if other.kind is not process.kind and read_group(members).draining:
            return
        member = classic(other)
        asked = member.question(known_ends=question.end_offsets is not None)
        if (asked.awaited or {}).keys() != (question.awaited or {}).keys():
            return  # an assignment reaches members at different times, so a wait that it sets ends at different times
        again = place_tasks(member.read_group(members), asked)
        if again.standing.plan.placements != decision.placements or again.inputs != _inputs(decision):
            self.report_violation(f"{process.run.name} decides differently from {member.client.member_id}")


class EarlyRequestsEnd(Checker):
    """Under a Java leader, as long as decisions change nothing, a member asks early at most once for each replica.

    A leader of ours may ask again: a probing rebalance is due until its warm-ups have become what it planned, and one
    that it saw caught up can be behind again when members join. The fallback is not counted: it decides without the
    lags that a request is about.
    """

    invariant = "early requests end"

    def __init__(self) -> None:
        super().__init__()
        self._decided: object = None
        self._leader: Process | None = None
        self._replicas: dict[Process, int] = {}
        self._asked: Counter[Process] = Counter()

    def decided(
        self,
        process: Process,
        members: Sequence[JoinedMember],
        question: DecisionInput,
        decision: Decision,
    ) -> None:
        if not is_of_this_generation(self.world, process):
            return  # a leader that slept decides for a generation that is over
        decided = process, {member.member_id for member in members}, decision.placements
        if decided != self._decided or question.end_offsets is None:
            self._asked.clear()
        self._decided, self._leader = decided, process

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:  # noqa: ARG002
        self._replicas[process] = len(adopted.standby | adopted.warmup)

    def asked_early(self, process: Process) -> None:
        if process is self._leader or classic(process).machine.generation != self.world.coordinator.generation:
            return  # in the second case the next generation has begun, of which it has no assignment yet
        self._asked[process] += 1
        replicas = self._replicas[process]
        if (asked := self._asked[process]) > replicas:
            self.report_violation(f"{process.run.name} asks {asked} times for {replicas} replicas; nothing changes")


def _knows_as_much(process: Process, other: Process) -> bool:
    """Return whether both have the assignment of the same generation."""
    mine, its = classic(process), classic(other)
    return mine.adopted is not None and mine.machine.generation == its.machine.generation


def _inputs(decision: Decision) -> dict[str, tuple[TopicPartition, ...]]:
    return {member: answer.partitions for member, answer in decision.assignments.items()}


def every_checker() -> list[Checker]:
    """Return a new checker of each kind, for a classic group."""
    kinds = (
        OneOwner,
        FencedIsSilent,
        PromisesKept,
        WarmupsWithin,
        OffsetsGoOn,
        OutputsComplete,
        NoWorkLost,
        OnceOnly,
        StoresFollow,
        DrainedAreIdle,
        SameOnEveryLeader,
        EarlyRequestsEnd,
    )
    return [kind() for kind in kinds]
