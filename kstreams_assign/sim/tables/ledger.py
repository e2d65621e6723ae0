"""Records which process has which task when: the bars of a timeline, and the source of the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.group.leader import DecisionInput
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.checkers.checker import Checker

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

RUNS, RESTORES, STANDS_BY, WARMS_UP = "runs", "restores", "standby", "warm-up"


class Bar(NamedTuple):
    """A task in a role on a process. Times are milliseconds of the timeline; ``to_ms`` is -1 while it lasts."""

    task: TaskId
    role: str
    slot: int
    from_ms: int
    to_ms: int = -1


class Ledger(Checker):
    """A checker without an invariant. ``rebalances``: the times of decisions."""

    invariant = "the ledger is kept"

    def __init__(self) -> None:
        super().__init__()
        self.bars: list[Bar] = []
        self.rebalances: list[int] = []
        self._open: dict[tuple[TaskId, Process], Bar] = {}

    # --- what is heard of --------------------------------------------------------------------

    def decided(
        self,
        process: Process,  # noqa: ARG002
        members: Sequence[JoinedMember],  # noqa: ARG002
        question: DecisionInput,  # noqa: ARG002
        decision: Decision,  # noqa: ARG002
    ) -> None:
        self.rebalances.append(self._now_ms)

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:  # noqa: ARG002
        roles = {
            **dict.fromkeys(adopted.standby, STANDS_BY),
            **dict.fromkeys(adopted.warmup, WARMS_UP),
            **dict.fromkeys(adopted.active, RESTORES),
        }
        for (task, who), bar in list(self._open.items()):
            if who is process and task not in roles and bar.role != RUNS:  # a running task ends with ``stopped``
                self._end(task, process)
        for task, role in roles.items():
            bar_now = self._open.get((task, process))
            if bar_now is None or bar_now.role not in (role, RUNS):
                self._begin(task, process, role)

    def runs(self, process: Process, task: TaskId, at: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        self._begin(task, process, RUNS)

    def stopped(self, process: Process, task: TaskId) -> None:
        bar = self._open.get((task, process))
        if bar is not None and bar.role == RUNS:
            self._end(task, process)

    def lost(self, process: Process) -> None:
        for task, who in list(self._open):
            if who is process:
                self._end(task, process)

    # --- writing -----------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return self.world.timeline.now_ms

    def _begin(self, task: TaskId, process: Process, role: str) -> None:
        self._end(task, process)
        self._open[task, process] = Bar(task, role, process.slot, self._now_ms)

    def _end(self, task: TaskId, process: Process) -> None:
        bar = self._open.pop((task, process), None)
        if bar is not None and bar.from_ms < self._now_ms:
            self.bars.append(bar._replace(to_ms=self._now_ms))

    # --- reading -----------------------------------------------------------------------------

    def between(self, from_ms: int, to_ms: int) -> Iterator[Bar]:
        """Yield every bar, cut to this time."""
        for bar in [*self.bars, *self._open.values()]:
            until_ms = min(to_ms, bar.to_ms if bar.to_ms >= 0 else to_ms)
            since_ms = max(from_ms, bar.from_ms)
            if since_ms < until_ms:
                yield bar._replace(from_ms=since_ms, to_ms=until_ms)
