"""What leaders decide, and how often members ask them to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING
from uuid import UUID

from kstreams_assign.assign import check
from kstreams_assign.group.awaiting import read_restarts
from kstreams_assign.group.leader import DecisionInput, place_tasks
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import GroupView
from kstreams_assign.model import TopicPartition
from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.present import is_of_this_generation
from kstreams_assign.sim.membership import classic
from kstreams_assign.sim.reading import read_group

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


class PlansHold(Checker):
    """Checks the decisions of our assignor, except where a process drains: it keeps tasks until others have them."""

    invariant = "plans have all properties"

    def decided(
        self,
        process: Process,  # noqa: ARG002
        members: Sequence[JoinedMember],
        question: DecisionInput,  # noqa: ARG002
        decision: Decision,
    ) -> None:
        standing = decision.standing
        if standing is None or decision.assignor != "least_movement":
            return
        texts = check(standing.cluster, standing.config, standing.plan)
        if texts and not read_group(members).draining:
            for text in texts:
                self.report_violation(text)


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
        view = member.read_group(members)
        if _list_awaited(view, asked) != _list_awaited(view, question):
            return  # an assignment reaches members at different times, so a wait that it sets ends at different times
        again = place_tasks(view, asked)
        if again.standing.plan.placements != decision.placements or again.inputs != _inputs(decision):
            self.report_violation(f"{process.run.name} decides differently from {member.client.member_id}")


def _knows_as_much(process: Process, other: Process) -> bool:
    """Return whether both have the assignment of the same generation."""
    mine, its = classic(process), classic(other)
    return mine.adopted is not None and mine.machine.generation == its.machine.generation


def _list_awaited(view: GroupView, question: DecisionInput) -> tuple[AbstractSet[UUID], AbstractSet[UUID]]:
    """Return the processes whose wait has not ended yet: those that are still away, and those that are back."""
    max_delay_ms = question.config.scheduled_rebalance_max_delay_ms
    restarts = read_restarts(view, max_delay_ms, question.leader, question.joined_ago_ms)
    return restarts.away.keys(), restarts.back.keys()


def _inputs(decision: Decision) -> dict[str, tuple[TopicPartition, ...]]:
    return {member: answer.partitions for member, answer in decision.assignments.items()}


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
        self._leaders: dict[int, Process] = {}
        """By generation: one that no broker has stored may be followed by the one before it, with that one's leader."""
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
        self._decided = decided
        self._leaders[self.world.coordinator.generation] = process

    def assigned(self, process: Process, generation: int, adopted: Adopted) -> None:  # noqa: ARG002
        self._replicas[process] = len(adopted.standby | adopted.warmup)

    def asked_early(self, process: Process) -> None:
        generation = classic(process).machine.generation
        if generation != self.world.coordinator.generation or self._leaders.get(generation) is process:
            return  # in the first case the next generation has begun, of which it has no assignment yet
        self._asked[process] += 1
        replicas = self._replicas[process]
        if (asked := self._asked[process]) > replicas:
            self.report_violation(f"{process.run.name} asks {asked} times for {replicas} replicas; nothing changes")
