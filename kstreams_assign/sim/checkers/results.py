"""What is committed: offsets, outputs, changelogs and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.present import may_commit

if TYPE_CHECKING:
    from kstreams_assign.sim.committing import Share
    from kstreams_assign.sim.outputs import Outputs
    from kstreams_assign.sim.process import Process


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


class _Reaching(Checker):
    """Knows the input offset up to which each partition has what its subclass counts."""

    def __init__(self) -> None:
        super().__init__()
        self._reached: dict[TopicPartition, int] = {}

    def _reach(self, partition: TopicPartition) -> int:
        return self._reached.get(partition, self.world.logs.firsts.get(partition, 0))


class OutputsComplete(_Reaching):
    """At least once, input is committed only after its outputs; no output is left out, some may be sent again."""

    invariant = "committed input has its outputs"

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
        if task not in logs.ends or not may_commit(self.world, process, task):
            return
        held = sum(process.disk.folders[task].values())
        if held < logs.firm[task]:
            self.report_violation(f"{process.run.name} begins {task} at {held} of {logs.firm[task]}")
        if held > max([logs.firm[task], *(logs.readable[p] for p in process.disk.folders[task])]):
            self.report_violation(f"{process.run.name} begins {task} at {held}, with results that are not committed")
        if max(at.values()) > logs.works[task]:
            self.report_violation(f"{process.run.name} begins {task} after input whose results are lost")


class OnceOnly(_Reaching):
    """Exactly once, committed transactions continue each other: no input has its results twice, and none is skipped."""

    invariant = "each input has its results once"

    def transacted(self, process: Process, shares: Sequence[Share]) -> None:
        for share in shares:
            for partition, first in share.firsts.items():
                if first != (reached := self._reach(partition)):
                    self.report_violation(
                        f"{process.run.name} commits results of {partition} from {first} on; they reach {reached}"
                    )
                self._reached[partition] = share.offsets[partition]

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:
        if self.world.scenario.exactly_once and may_commit(self.world, process, task):
            for partition, offset in at.items():
                if offset != (reached := self._reach(partition)):
                    self.report_violation(
                        f"{process.run.name} begins {task} at {offset} of {partition}; its results reach {reached}"
                    )


class StoresFollow(Checker):
    """A store takes nothing that its process has not committed in the changelog, and nothing behind a failed write."""

    invariant = "a store follows its changelog"

    def __init__(self) -> None:
        super().__init__()
        self._holes: set[tuple[Process, TaskId]] = set()
        self._works: dict[tuple[Process, TaskId], int] = {}
        """The input offset up to which a changelog has results of the process that runs the task."""

    def unwritten(self, process: Process, task: TaskId) -> None:
        self._holes.add((process, task))

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        self._holes.discard((process, task))
        self._works.pop((process, task), None)

    def appended(self, process: Process, task: TaskId, before: int, work: int) -> None:  # noqa: ARG002
        self._works[process, task] = work

    def stored(self, process: Process, task: TaskId, at: int, work: int) -> None:
        if work > (results := self._works.get((process, task), 0)):
            self.report_violation(
                f"{process.run.name} stores results of {task} up to {work}; its changelog has {results}"
            )
        if (process, task) in self._holes:
            self.report_violation(f"{process.run.name} stores {task} up to {at}, and not what comes before")
        if at > (firm := self.world.logs.firm[task]):
            self.report_violation(f"{process.run.name} stores {task} up to {at}, committed are {firm}")
