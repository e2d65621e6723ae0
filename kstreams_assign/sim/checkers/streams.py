"""The invariants of a streams group (KIP-1071). Those of state, results and offsets are the classic group's.

Left out, as only a classic group has what they judge: ``PromisesKept`` (no member reports offsets), ``WarmupsWithin``
(there are no warm-ups), ``DrainedAreIdle`` (a drain only closes here), ``SameOnEveryLeader`` and ``PlansHold`` (no
member decides), ``EarlyRequestsEnd`` (no member asks for a rebalance), ``WaitsAreAnnounced`` (the session is the
wait).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.engine.streams_events import StreamsTasks
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId
from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.owners import FencedIsSilent, OneOwner
from kstreams_assign.sim.checkers.results import NoWorkLost, OffsetsGoOn, OnceOnly, OutputsComplete, StoresFollow

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


class OneOwnerAtATime(OneOwner):
    """No member begins a task while another runs it and both may commit. Numbers of assignments are a member's own."""

    invariant = "one active owner per task"

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        """Look only at what is run."""


class ReleasedFirst(Checker):
    """The coordinator gives a task on only after its owner has reported that it is released, left, or was removed.

    It keeps its own book, of what crossed the wire.
    """

    invariant = "a task is given on once it is released"

    def __init__(self) -> None:
        super().__init__()
        self._holders: dict[TaskId, str] = {}

    def answered(self, member: str, owned: StreamsTasks | None, given: StreamsTasks) -> None:
        if owned is not None:
            for task in [task for task, holder in self._holders.items() if holder == member]:
                if task not in owned.active | given.active:
                    del self._holders[task]
        for task in sorted(given.active):
            if (holder := self._holders.setdefault(task, member)) != member:
                self.report_violation(f"{task} is given to {member}, and {holder} has not released it")

    def removed(self, member: str) -> None:
        self._holders = {task: holder for task, holder in self._holders.items() if holder != member}


class ReportsWhatRuns(Checker):
    """What a member reports that it owns includes all tasks that it runs: the coordinator may give the others on."""

    invariant = "a report names all tasks that run"

    def answered(self, member: str, owned: StreamsTasks | None, given: StreamsTasks) -> None:  # noqa: ARG002
        if owned is None:
            return
        for process in self.world.processes:
            client = process.membership.client
            if client.member_id == member and client.joined:
                for task in sorted(process.loop.running.keys() - owned.active):
                    self.report_violation(f"{process.run.name} runs {task}, and reports that it has released it")


def every_streams_checker() -> list[Checker]:
    """Return a new checker of each kind, for a streams group."""
    kinds = (
        OneOwnerAtATime,
        ReleasedFirst,
        ReportsWhatRuns,
        FencedIsSilent,
        OffsetsGoOn,
        OutputsComplete,
        NoWorkLost,
        OnceOnly,
        StoresFollow,
    )
    return [kind() for kind in kinds]
