"""What must hold, one checker each, apart from the world: they see what happens and keep books of their own.

A checker never asks the parts that it judges; it goes by what crossed the wire and by what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.leader import Question, decide
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import TaskId, TopicPartition

if TYPE_CHECKING:
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
    """What it may hear of. ``violated`` is where it complains."""

    invariant: ClassVar[str]

    def __init__(self) -> None:
        self.world: World
        self.violated: Callable[[str, str], None]

    def complain(self, detail: str) -> None:
        self.violated(self.invariant, detail)

    def reported(self, process: Process, report: MemberReport) -> None:
        """A JoinGroup leaves with this user-data."""

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: Question, decision: Decision
    ) -> None:
        """The leader has decided."""

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        """An assignment has come."""

    def locked(self, process: Process, generation: int) -> None:
        """What an assignment gave is locked."""

    def lost(self, process: Process) -> None:
        """The member is out of the group and knows it, or its process has ended."""

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        """A task begins to be processed."""

    def stopped(self, process: Process, task: TaskId) -> None:
        """A task is no longer processed."""

    def appended(self, process: Process, task: TaskId, before: int, work: int) -> None:
        """A changelog takes records; ``before`` and ``work`` are the input offsets whose work it held and holds."""

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """The coordinator takes a commit; it stands on the books when all have heard of it."""

    def cleaned(self, process: Process, task: TaskId) -> None:
        """The cleaner has removed a folder."""


HOOKS = tuple(name for name in vars(Checker) if not name.startswith("_") and name not in ("invariant", "complain"))


class Watch:
    """Hands what happens to the checkers that care."""

    def __init__(self, seed: int, checkers: Sequence[Checker]) -> None:
        self._seed = seed
        self._checkers = checkers
        self.violations: list[Violation] = []
        for name in HOOKS:
            caring = [getattr(one, name) for one in checkers if getattr(type(one), name) is not getattr(Checker, name)]
            setattr(self, name, _all_of(caring))

    def __getattr__(self, name: str) -> Any:
        """For the type checker: the hooks are set when it is made."""
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
        for one in calls:
            one(*facts)

    return calls[0] if len(calls) == 1 else call


class OneOwner(Checker):
    """In each generation a task is given to one member; and nobody begins it while another member of that generation runs it."""

    invariant = "one active owner per task and generation"

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[tuple[int, TaskId], str] = {}
        self._running: dict[TaskId, set[Process]] = {}

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        for task in adopted.active:
            owner = self._given.setdefault((generation, task), process.membership.client.member_id)
            if owner != process.membership.client.member_id and process.instance_id is None:
                self.complain(
                    f"generation {generation} gives {task} to {owner} and {process.membership.client.member_id}"
                )

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        others = self._running.setdefault(task, set())
        for other in others:
            if other is not process and _may_commit(self.world, other) and _may_commit(self.world, process):
                self.complain(f"{process.run.name} begins {task} while {other.run.name} runs it, and both may commit")
        others.add(process)

    def stopped(self, process: Process, task: TaskId) -> None:
        self._running.get(task, set()).discard(process)

    def lost(self, process: Process) -> None:
        for running in self._running.values():
            running.discard(process)


def _may_commit(world: World, process: Process) -> bool:
    client, group = process.membership.client, world.coordinator
    return client.member_id in group.seats and client.generation == group.generation


class FencedIsSilent(Checker):
    """Once a task has begun anew somewhere, its changelog takes nothing from whoever had it before.

    Who is out of the group and does not know may begin a task, as long as nothing comes of it.
    """

    invariant = "no processing and no commit by a fenced member"

    def __init__(self) -> None:
        super().__init__()
        self._began: dict[TaskId, Process] = {}
        self._works: dict[TaskId, int] = {}

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        if process.membership.client.member_id in self.world.coordinator.seats:
            self._began[task] = process
            self._works[task] = min(at.values())

    def appended(self, process: Process, task: TaskId, before: int, work: int) -> None:
        owner = self._began.get(task)
        if owner is not process:
            name = owner.run.name if owner else "nobody"
            self.complain(f"{process.run.name} writes to the changelog of {task} (at {work}); {name} has it since")
        elif work < self._works[task]:
            self.complain(
                f"{process.run.name} takes {task} back from {self._works[task]} to {work} (it was at {before})"
            )
        else:
            self._works[task] = work


class PromisesKept(Checker):
    """State that was reported for a join stays until the assignment is locked, or the join is given up; who leaves gives it up."""

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
        leaving = process.membership.machine.state is State.CLOSED
        if task in self._promised.get(process, ()) and not leaving:
            self.complain(f"{process.run.name} reported {task} and removed it before the assignment was locked")


class WarmupsWithin(Checker):
    """A decision gives no more warm-ups than are allowed; where they queue, each process restores no more at once."""

    invariant = "warm-ups within the limit"

    def decided(
        self,
        process: Process,  # noqa: ARG002
        members: Sequence[JoinedMember],  # noqa: ARG002
        question: Question,
        decision: Decision,
    ) -> None:
        limit = question.config.max_warmup_replicas
        count = sum(len(placed.warmup) for placed in decision.placements.values())
        if count > limit and not question.warmup_queue:
            self.complain(f"{count} warm-ups where {limit} are allowed")

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        queue, limit = adopted.queue, self.world.config.max_warmup_replicas
        if queue is not None and queue.at_once > max(1, limit):
            self.complain(
                f"{process.run.name} may restore {queue.at_once} at once in generation {generation}, not {limit}"
            )
        if not self.world.scenario.warmup_queue and sum(map(len, adopted.warmups.values())) > limit:
            self.complain(
                f"generation {generation} has {sum(map(len, adopted.warmups.values()))} warm-ups, not {limit}"
            )


class OffsetsGoOn(Checker):
    """Committed offsets never go back, and never beyond the work that the changelog holds."""

    invariant = "offsets never go back"

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        logs = self.world.logs
        for partition, offset in offsets.items():
            before = logs.committed.get(partition, 0)
            if offset < before:
                self.complain(f"{member} takes the offset of {partition} back from {before} to {offset}")
            task = TaskId(0, partition.partition)
            if partition.topic == self.world.shape.subtopologies[0].sources[0] and offset > logs.works[task]:
                self.complain(f"{member} commits {partition} at {offset}, but its changelog has {logs.works[task]}")


class NoWorkLost(Checker):
    """Whoever begins a task, and may commit, has all of its changelog; and no input is committed that it lacks."""

    invariant = "a task begins with all of its state"

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        logs = self.world.logs
        if task not in logs.ends or not _may_commit(self.world, process):
            return
        held = sum(process.disk.folders[task].values())
        if held != logs.ends[task]:
            self.complain(f"{process.run.name} begins {task} at {held} of {logs.ends[task]}")
        if max(at.values()) > logs.works[task]:
            self.complain(f"{process.run.name} begins {task} behind input whose work is lost")


class SameOnEveryLeader(Checker):
    """Whoever of those that know the last round leads, the decision is the same. Every third decision is made again."""

    invariant = "decisions equal on whichever member leads"

    def __init__(self) -> None:
        super().__init__()
        self._decisions = 0

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: Question, decision: Decision
    ) -> None:
        self._decisions += 1
        if self._decisions % 3 or process.membership.adopted is None:
            return
        here = {member.member_id for member in members}
        others = [one.membership for one in self.world.processes if one is not process and _knows_as_much(one, process)]
        for other in [one for one in others if one.client.member_id in here][:1]:
            again = decide(read_group(members), other.question(known_ends=question.end_offsets is not None))
            if again.placements != decision.placements or _inputs(again) != _inputs(decision):
                self.complain(f"{process.run.name} decides otherwise than {other.client.member_id} would")


def _knows_as_much(one: Process, other: Process) -> bool:
    """Both have the assignment of the same generation."""
    mine, its = one.membership, other.membership
    return mine.adopted is not None and mine.machine.generation == its.machine.generation


def _inputs(decision: Decision) -> dict[str, tuple[TopicPartition, ...]]:
    return {member: answer.partitions for member, answer in decision.assignments.items()}


def every_checker() -> list[Checker]:
    """One of each, new."""
    kinds = (OneOwner, FencedIsSilent, PromisesKept, WarmupsWithin, OffsetsGoOn, NoWorkLost, SameOnEveryLeader)
    return [kind() for kind in kinds]
