"""Who owns, runs and keeps tasks."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.present import may_commit
from kstreams_assign.sim.log_lines import names
from kstreams_assign.sim.member import NO_GENERATION
from kstreams_assign.sim.membership import classic

if TYPE_CHECKING:
    from kstreams_assign.sim.outputs import Outputs
    from kstreams_assign.sim.process import Process


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
        for other in others - {process} if may_commit(self.world, process, task) else ():
            if may_commit(self.world, other, task):
                self.report_violation(
                    f"{process.run.name} begins {task} while {other.run.name} runs it, and both may commit"
                )
        others.add(process)

    def stopped(self, process: Process, task: TaskId) -> None:
        self._running.get(task, set()).discard(process)

    def lost(self, process: Process) -> None:
        for running in self._running.values():
            running.discard(process)


class FencedIsSilent(Checker):
    """Once a member has begun a task, its changelog takes no records of the previous owner.

    A member that is out of the group may begin a task before it drops all, as long as it writes nothing. It may have
    sent its next JoinGroup by then, but a member without a generation owns no task. The broker that the group moves to
    may not know that it was out.
    """

    invariant = "no processing and no commit by a fenced member"

    def __init__(self) -> None:
        super().__init__()
        self._began: dict[TaskId, Process] = {}
        self._works: dict[TaskId, int] = {}
        self._began_outside: dict[TaskId, tuple[Process, int]] = {}

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        if self._owns(process, task):
            self._begin(process, task, min(at.values()))
        else:
            self._began_outside[task] = process, min(at.values())

    def _owns(self, process: Process, task: TaskId) -> bool:
        client = process.membership.client
        return self.world.group.owns(client.member_id, task) and client.generation != NO_GENERATION

    def _begin(self, process: Process, task: TaskId, work: int) -> None:
        self._began[task], self._works[task] = process, work
        self._began_outside.pop(task, None)

    def stopped(self, process: Process, task: TaskId) -> None:
        if task in self._began_outside and self._began_outside[task][0] is process:
            del self._began_outside[task]

    def lost(self, process: Process) -> None:
        self._began_outside = {task: began for task, began in self._began_outside.items() if began[0] is not process}

    def moved(self) -> None:
        for task, (process, work) in list(self._began_outside.items()):
            if self._owns(process, task):
                self._begin(process, task, work)

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
    """State that was reported for a join stays until the assignment is locked or the member leaves.

    It stays for twice the rebalance timeout from the first report of a rebalance on (``state.mutex``): one that takes
    longer must not block the cleaner for ever, and its member reports again. So a later deletion breaks no promise.
    """

    invariant = "no state deleted under a reported lag"

    def __init__(self) -> None:
        super().__init__()
        self._promised: dict[Process, Mapping[TaskId, int]] = {}
        self._until_ms: dict[Process, int] = {}

    def reported(self, process: Process, report: MemberReport) -> None:
        self._promised[process] = report.task_offset_sums
        until_ms = self.world.timeline.now_ms + 2 * self.world.scenario.rebalance_timeout_ms
        self._until_ms.setdefault(process, until_ms)

    def locked(self, process: Process, generation: int) -> None:  # noqa: ARG002
        self._promised.pop(process, None)

    def released(self, process: Process) -> None:
        self._until_ms.pop(process, None)

    def lost(self, process: Process) -> None:
        self._promised.pop(process, None)

    def cleaned(self, process: Process, task: TaskId) -> None:
        leaving = classic(process).machine.state is State.CLOSED
        is_overdue = self.world.timeline.now_ms >= self._until_ms.get(process, inf)
        if task in self._promised.get(process, ()) and not (leaving or is_overdue):
            self.report_violation(f"{process.run.name} reported {task} and removed it before the assignment was locked")


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
