"""A simulated group: all members join, the real leader decides, members adopt their assignments, replicas read on.

The leader is ``group.leader.decide`` with all it does: the choice of the assignor, KIP-429, the next rebalance. Only
the bytes are left out: reports and assignments are passed as values, so a generation of 100 members takes some
milliseconds. What lives here: one generation, and time. What must not: when the next generation comes (``pace``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kstreams_assign.assign import Placement, Plan, is_caught_up
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.leader import DecisionInput, decide
from kstreams_assign.group.values import Decision, JoinedMember, LeaderState, WarmupQueue
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.observe.group_state import ConsumerState, GroupState
from kstreams_assign.observe.played_process import PlayedProcess
from kstreams_assign.wire import AssignmentInfo


@dataclass(frozen=True, slots=True)
class Generation:
    """One rebalance: its cause, its leader's decision, and the group right after it.

    ``at_ms`` counts from the start. ``cause``: ``change``, ``probe`` or ``follow_up``; the decision has its own
    ``kind``. ``warmups``: replicas beyond the configured standbys. ``exposed``: number of stateful tasks without a
    caught-up replica beside the owner's, so that its loss costs a restore. ``cold``: active tasks that their process
    has to restore first. ``adopted_behind``: those that no process ran before and whose process lacks any offset of
    them: it reads on before it runs them, be it within the acceptable lag.
    """

    at_ms: int
    cause: str
    decision: Decision
    warmups: int
    exposed: int
    cold: frozenset[TaskId]
    adopted_behind: frozenset[TaskId]


class PlayedGroup:
    """A group simulated from ``state`` on. ``now_ms`` is simulated time."""

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.now_ms = 0
        self.offsets_read = 0
        self.promised: Mapping[TaskId, UUID] = dict(state.promised)
        self._tasks = state.topology.tasks(state.partition_counts)
        self._task_of = {partition: task for task, partitions in self._tasks.items() for partition in partitions}
        self._ends = _end_offsets(state)
        self.processes = {name: PlayedProcess(process, state.ends) for name, process in state.processes.items()}

    # --- one rebalance ------------------------------------------------------------

    def rebalance(self, cause: str) -> Generation:
        """All members join, get an assignment and adopt it. Raises ``ConfigError`` if the leader refuses to assign."""
        for process in self.processes.values():
            process.clean_up(self.now_ms, self.state.state_cleanup_delay_ms)
        decision, answers = self._decide()
        ran = {name: process.active for name, process in self.processes.items()}
        self._adopt(decision, answers)
        self.promised = dict(decision.withheld)
        acceptable = self.state.config.acceptable_recovery_lag
        taken = {
            task: process.lag(task)
            for name, process in self.processes.items()
            for task in (process.active - ran[name]) & self.state.ends.keys()
        }
        return Generation(
            at_ms=self.now_ms,
            cause=cause,
            decision=decision,
            warmups=sum(len(placed.warmup) for placed in decision.placements.values()),
            exposed=self.exposed(),
            cold=frozenset(task for task, lag in taken.items() if not is_caught_up(lag, acceptable)),
            adopted_behind=frozenset(task for task in decision.adopted if taken.get(task)),
        )

    def _decide(self) -> tuple[Decision, dict[str, AssignmentInfo]]:
        """Return the leader's decision, and each member's assignment as a value (the decision has empty bytes)."""
        answers: list[AssignmentInfo] = []

        def keep(infos: Iterable[AssignmentInfo]) -> list[bytes]:
            kept = list(infos)
            answers.extend(kept)
            return [b""] * len(kept)

        view = self._view(replace(APACHE, write_assignments=keep))
        decision = decide(view, self._question())
        if decision.kind == "refused":
            raise ConfigError(f"nothing can be predicted: {'; '.join(decision.warnings)}")
        return decision, dict(zip(view.member_ids, answers, strict=True))

    def _view(self, dialect: Dialect) -> GroupView:
        """Return what ``read_group`` would: members in the order of their ids."""
        joined = {}
        for name, process in self.processes.items():
            for member, sums in process.reports().items():
                joined[member] = name, self._consumer(process, member, sums)
        processes: dict[UUID, list[Consumer]] = {}
        for member in sorted(joined):
            name, consumer = joined[member]
            processes.setdefault(name, []).append(consumer)
        reports = [process.about for process in self.processes.values()]
        return GroupView(
            processes={name: tuple(consumers) for name, consumers in processes.items()},
            unreadable={},
            version=min(report.version for report in reports),
            supported=min(report.latest_supported_version for report in reports),
            dialect=dialect,
        )

    def _consumer(self, process: PlayedProcess, member: str, sums: Mapping[TaskId, int]) -> Consumer:
        owned = tuple(p for task in sorted(process.consumers[member].active) for p in self._tasks[task])
        report: MemberReport = replace(process.about, task_offset_sums=sums, task_lags=None)
        return Consumer(JoinedMember(member, self.state.topology.source_topics, owned, b""), report)

    def _question(self) -> DecisionInput:
        return DecisionInput(
            application_id=self.state.application_id,
            topology=self.state.topology,
            assignor=self.state.assignor,
            config=self.state.config,
            leader=self.state.leader,
            partition_counts=self.state.partition_counts,
            end_offsets=self._ends,
            now_ms=self.now_ms,
            promised=self.promised,
            loads=self.state.loads,
            warmup_queue=self.state.warmup_queue,
        )

    def _adopt(self, decision: Decision, answers: Mapping[str, AssignmentInfo]) -> None:
        for name, process in self.processes.items():
            taken = [
                ConsumerState(
                    member,
                    frozenset(self._task_of[partition] for partition in decision.assignments[member].partitions),
                    frozenset(answers[member].standby_tasks),
                )
                for member in process.consumers
            ]
            trailer = answers[taken[0].member_id].trailer
            at_once = trailer.at_once.get(name) if trailer and process.ours else None
            queue = WarmupQueue(trailer.warmups.get(name, ()), at_once) if trailer and at_once else None
            process.adopt(taken, self.now_ms, queue)

    # --- its present state -----------------------------------------------------------

    @property
    def capacities(self) -> dict[UUID, int]:
        return {name: len(process.consumers) for name, process in self.processes.items()}

    def owners(self) -> dict[TaskId, UUID]:
        """Return task -> the process that runs it, or gets it in the follow-up rebalance."""
        owners = {task: name for name, process in self.processes.items() for task in process.active}
        return {**owners, **{task: name for task, name in self.promised.items() if name in self.processes}}

    def next_decision(self) -> Decision:
        """Return what a rebalance would decide now, without carrying it out."""
        return self._decide()[0]

    def standing(self) -> LeaderState:
        """Return the standing as if the last decision had been the group's present tasks."""
        standing = self.next_decision().standing
        assert standing is not None, "a decision without refusal has a standing"
        held = {name: Placement(process.active, process.copies) for name, process in self.processes.items()}
        return LeaderState(standing.cluster, Plan(held, probing=True), standing.config, standing.assign)

    def exposed(self) -> int:
        """Return how many stateful tasks have no caught-up replica beside the owner's."""
        acceptable = self.state.config.acceptable_recovery_lag
        covered = {
            task
            for process in self.processes.values()
            for task in process.copies & self.state.ends.keys()
            if is_caught_up(process.lag(task), acceptable)
        }
        return len(self.state.ends) - len(covered)

    # --- time ----------------------------------------------------------------------

    def until_next_ms(self, offsets_per_s: int) -> int | None:
        """Return the time until the next task or replica gets near, or to, its end; None if nothing is read."""
        acceptable = self.state.config.acceptable_recovery_lag
        waits = [process.until_next_ms(offsets_per_s, acceptable) for process in self.processes.values()]
        return min((ms for ms in waits if ms is not None), default=None)

    def read_for(self, ms: int, offsets_per_s: int) -> None:
        """Let ``ms`` pass while every process reads ``offsets_per_s``. ``ms`` is at most ``until_next_ms``."""
        acceptable = self.state.config.acceptable_recovery_lag
        self.offsets_read += sum(process.read_for(ms, offsets_per_s, acceptable) for process in self.processes.values())
        self.now_ms += ms

    def read_all(self) -> None:
        """Read everything to its end, in no time."""
        self.offsets_read += sum(process.read_all() for process in self.processes.values())


def _end_offsets(state: GroupState) -> dict[TopicPartition, int]:
    """Turn ends by task into ends by changelog: a decision uses only the sum over a task's changelogs."""
    ends: dict[TopicPartition, int] = {}
    for task, end in state.ends.items():
        changelogs = list(state.topology.changelogs(state.application_id, task).values())
        ends.update(dict.fromkeys(changelogs, 0))
        ends.update(dict.fromkeys(changelogs[:1], end))
    return ends
