"""The checker of waits: a task waits only for a process that announced its restart, and not longer than it may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kstreams_assign.assign import check
from kstreams_assign.group.leader import DecisionInput
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.sim.checkers import Checker

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

ROUND_TRIP_MS = 5_000
"""The time from a decision to the members' clocks, which start with the assignment."""
ASKED_WITHIN_MS = 180_000
"""By then a wait that is over has led to a rebalance, also if the leader was paused, lost, or lost again."""


class WaitsAreAnnounced(Checker):
    """It reads who announces a restart from the members' bytes, and measures by the simulated time alone.

    A process is back once any member has an assignment of a generation with it: before that, no member may know it.
    """

    invariant = "tasks wait only as announced"

    def __init__(self) -> None:
        super().__init__()
        self._announced_ms: dict[UUID, int] = {}
        self._present: dict[int, frozenset[UUID]] = {}

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: DecisionInput, decision: Decision
    ) -> None:
        if process.membership.client.generation != self.world.coordinator.generation:
            return  # a leader that slept decides for a generation that is over
        view, now_ms = read_group(members), self.world.timeline.now_ms
        self._present[self.world.coordinator.generation] = view.processes.keys() - view.restarting
        if decision.waiting and view.foreign:
            self.report_violation(f"tasks wait in a group with {', '.join(view.foreign)}")
        for awaited in decision.awaited.keys() - view.restarting:
            self._check_wait(awaited, now_ms, question.config.scheduled_rebalance_max_delay_ms)
        self._announced_ms.update(dict.fromkeys(view.restarting, now_ms))
        self._check_plan(decision)
        if decision.wait_ends_ms is not None:
            generation = self.world.coordinator.generation
            self.world.timeline.at(decision.wait_ends_ms + ASKED_WITHIN_MS, self._is_asked, generation)

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:  # noqa: ARG002
        for present in self._present.pop(generation, ()):
            self._announced_ms.pop(present, None)

    def _check_wait(self, awaited: UUID, now_ms: int, max_ms: int) -> None:
        announced_ms = self._announced_ms.get(awaited)
        if announced_ms is None:
            self.report_violation(f"{awaited} is awaited and did not announce a restart")
        elif now_ms > announced_ms + max_ms + ROUND_TRIP_MS:
            self.report_violation(f"{awaited} is awaited {now_ms - announced_ms} ms after its announcement")

    def _check_plan(self, decision: Decision) -> None:
        if decision.awaited and decision.standing is not None:
            standing = decision.standing
            for text in check(standing.cluster, standing.config, standing.plan):
                if " waits for " in text or "not active on any" in text:
                    self.report_violation(text)

    def _is_asked(self, generation: int) -> None:
        if self.world.coordinator.generation == generation and self.world.processes:
            self.report_violation(f"no rebalance ends the wait of generation {generation}")
