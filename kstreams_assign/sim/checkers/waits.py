"""The checker of waits: a task waits for a process that announced its restart, only for such, and only so long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING
from uuid import UUID

from kstreams_assign.assign import check
from kstreams_assign.group.leader import DecisionInput
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import GroupView
from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.present import is_of_this_generation
from kstreams_assign.sim.reading import read_group

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

ROUND_TRIP_MS = 5_000
"""The time from a decision to the members' clocks, which start with the assignment."""
ASKED_WITHIN_MS = 180_000
"""By then a wait that is over has led to a rebalance, also if the leader was paused, lost, or lost again."""


class WaitsAreAnnounced(Checker):
    """It reads who announces a restart from the members' bytes, and measures by the simulated time alone.

    A member knows that a process is back from the assignment of a generation with it. A decision may wait for a process
    that was back only if no member that joins knows it: then the announced time still limits the wait.

    Whom the newest assignment of those that join awaits, the decision awaits, too, in the first half of the time at
    least: a leader that has just joined may count down too much. A process that was back and announces its next restart
    has what is left of the first time, if no member that joins knows that it was back.
    """

    invariant = "tasks wait as announced"

    def __init__(self) -> None:
        super().__init__()
        self._announced_ms: dict[UUID, int] = {}
        self._announced_by: dict[UUID, int] = {}
        """The number of the last decision that read an announcement."""
        self._present: dict[int, tuple[int, AbstractSet[UUID]]] = {}
        """By generation: the number of its decision, and the processes that do not leave."""
        self._know_it_is_back: dict[UUID, set[Process]] = {}
        self._kept_until_ms: dict[UUID, float] = {}
        self._awaits: dict[Process, tuple[int, Mapping[UUID, float]]] = {}
        """By its newest assignment: the generation, and whom it awaits, with the time until which they were kept then.
        """
        self._decisions = 0

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: DecisionInput, decision: Decision
    ) -> None:
        if not is_of_this_generation(self.world, process):
            return  # a leader that slept decides for a generation that is over
        self._decisions += 1
        view, now_ms = read_group(members), self.world.timeline.now_ms
        max_ms, joined = question.config.scheduled_rebalance_max_delay_ms, {member.member_id for member in members}
        self._present[self.world.coordinator.generation] = self._decisions, view.processes.keys() - view.restarting
        if decision.waiting and view.foreign:
            self.report_violation(f"tasks wait in a group with {', '.join(view.foreign)}")
        for awaited in decision.awaited.keys() - view.restarting:
            self._check_wait(awaited, now_ms, max_ms)
            self._check_knowledge(awaited, joined)
        if not view.foreign:
            self._check_kept(decision.awaited.keys() | view.processes.keys(), joined, now_ms)
        for announcing in view.restarting:
            self._announced_ms[announcing], self._announced_by[announcing] = now_ms, self._decisions
            self._kept_until_ms.setdefault(announcing, now_ms + _time_left_ms(view, announcing, max_ms) / 2)
            self._know_it_is_back.pop(announcing, None)
        self._check_plan(decision)
        if decision.wait_ends_ms is not None:
            rebalance = self.world.coordinator.generation, self._decisions
            self.world.timeline.at(decision.wait_ends_ms + ASKED_WITHIN_MS, self._is_asked, rebalance)

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:
        self._awaits[process] = generation, {each: self._kept_until_ms.get(each, 0) for each in adopted.awaited}
        number, present = self._present.get(generation, (0, frozenset[UUID]()))
        for each in present:
            if number > self._announced_by.get(each, 0):  # an assignment may arrive after a later announcement
                self._know_it_is_back.setdefault(each, set()).add(process)
                self._kept_until_ms.pop(each, None)

    def lost(self, process: Process) -> None:
        self._awaits.pop(process, None)
        for knowing in self._know_it_is_back.values():
            knowing.discard(process)

    def _check_knowledge(self, awaited: UUID, joined: set[str]) -> None:
        for process in self._know_it_is_back.get(awaited, ()):
            if process.membership.client.member_id in joined:
                self.report_violation(f"{awaited} is awaited, although {process.run.name} knows that it was back")

    def _check_kept(self, known: AbstractSet[UUID], joined: set[str], now_ms: int) -> None:
        """Check that the decision knows of all that the newest assignment awaits."""
        newest = [at for process, at in self._awaits.items() if process.membership.client.member_id in joined]
        _, kept_then_ms = max(newest, key=lambda at: at[0], default=(0, dict[UUID, float]()))
        for process in kept_then_ms.keys() - known:
            # A later announcement, which those that join may not know, has a time of its own.
            if now_ms < min(kept_then_ms[process], self._kept_until_ms.get(process, 0)):
                self.report_violation(f"{process} is not awaited any more, although its time is not over")

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

    def _is_asked(self, rebalance: tuple[int, int]) -> None:
        """A coordinator that moved may give a generation again: then there is another decision."""
        generation = self.world.coordinator.generation
        if (generation, self._decisions) == rebalance and self.world.processes:
            self.report_violation(f"no rebalance ends the wait of generation {generation}")


def _time_left_ms(view: GroupView, announcing: UUID, max_ms: int) -> int:
    """Return how long a process that announces its restart may be awaited."""
    reports = [awaited for _, awaited in view.reports_of_awaited]
    if reports and all(announcing in awaited for awaited in reports):
        return min(max_ms, *(awaited[announcing].left_ms for awaited in reports))
    return max_ms
