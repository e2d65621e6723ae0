"""A decoded group in the form that assignors take, by the same code as a leader's.

Two moments are available: the join that led to the present assignment, as its leader saw it, and the next join, at
which every member owns its present tasks. Members do not report what a replica has read since the last join: it counts
either as reported then, or as read to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Assignor, Cluster
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR, Choice
from kstreams_assign.group.awaiting import read_restarts
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.leader import (
    DecisionInput,
    build_cluster,
    choose_assignor,
    end_offset_sums,
    find_previous_owners,
    lookups,
)
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.observe.decoded import DecodedGroup, DecodedMember, DecodedProcess
from kstreams_assign.observe.settings import Settings
from kstreams_assign.observe.topology import ObservedTopology

NO_LEADER = UUID(int=0)
CLEANUP_DELAY_MS = 600_000
"""Default of ``state_cleanup_delay_ms``: how long a process keeps, and reports, the state of a revoked task."""


@dataclass(frozen=True)
class ObservedGroup:
    """A group with everything that a decision needs. ``assumed``: what no member reported, subject -> sentence."""

    decoded: DecodedGroup
    topology: ObservedTopology
    settings: Settings

    @property
    def assumed(self) -> dict[str, str]:
        assumed = {**self.decoded.snapshot.gaps, **self.topology.assumed, **self.settings.assumed}
        if any(map(_left_state, self.decoded.processes)):
            assumed["state of revoked tasks"] = (
                f"{'deleted' if self._is_past_cleanup else 'still there'}: a process keeps it for "
                f"{CLEANUP_DELAY_MS:,} ms after the assignment, the default of state_cleanup_delay_ms"
            )
        return assumed

    @cached_property
    def config(self) -> AssignConfig:
        """The settings for a decision. A leader with a warm-up queue places all warm-ups, and few restore at a time."""
        trailer = self.decoded.trailer
        if trailer and trailer.at_once:
            return replace(self.settings.config, max_warmup_replicas=max(1, len(self.tasks)))
        return self.settings.config

    @cached_property
    def tasks(self) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Every task with its input partitions."""
        return self.topology.shape.tasks(self.decoded.snapshot.partition_counts)

    @cached_property
    def stateful(self) -> frozenset[TaskId]:
        return frozenset(task for task in self.tasks if self.topology.shape.stateful(task))

    @cached_property
    def changelogs(self) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Stateful task -> the changelog partitions of its stores."""
        group, shape = self.decoded.snapshot.group, self.topology.shape
        return {task: tuple(shape.changelogs(group, task).values()) for task in sorted(self.stateful)}

    @cached_property
    def ends_known(self) -> bool:
        ends = self.decoded.snapshot.end_offsets
        return all(partition in ends for partitions in self.changelogs.values() for partition in partitions)

    @cached_property
    def end_offset_sums(self) -> Mapping[TaskId, int]:
        """Stateful task -> sum of its changelogs' end offsets. All are 0 if the ends are not known."""
        return end_offset_sums(self._question, set(self.stateful))

    @cached_property
    def begin_offset_sums(self) -> dict[TaskId, int]:
        """Stateful task -> sum of its changelogs' begin offsets."""
        begin = self.decoded.snapshot.begin_offsets
        return {task: sum(begin.get(log, 0) for log in logs) for task, logs in self.changelogs.items()}

    @cached_property
    def owners(self) -> dict[TaskId, UUID]:
        """Task -> the process that has it, or gets it in the follow-up rebalance."""
        return find_previous_owners(self._next_view(()), self.tasks, self.decoded.promised)

    def deleted_state(self, process: DecodedProcess) -> frozenset[TaskId]:
        """Return the tasks whose state a process reported at the last join, and that it has deleted since.

        It keeps the state of a task that it no longer has for ``CLEANUP_DELAY_MS``, and reports it until then.
        """
        return _left_state(process) if self._is_past_cleanup else frozenset()

    @property
    def _is_past_cleanup(self) -> bool:
        """Whether the assignment is older than the delay. One of an unknown time counts as new."""
        snapshot = self.decoded.snapshot
        return snapshot.assigned_ms is not None and snapshot.taken_ms - snapshot.assigned_ms > CLEANUP_DELAY_MS

    @property
    def choice(self) -> Choice:
        """The assignor of the next round, chosen as a leader would."""
        return self._deciding[0]

    @property
    def assignor(self) -> Assignor:
        """The assignor of ``choice``, which takes draining and awaited processes into account."""
        return self._deciding[1]

    @property
    def _javas(self) -> bool:
        return self.choice.name == JAVA_ASSIGNOR

    @cached_property
    def _deciding(self) -> tuple[Choice, Assignor]:
        choice, assign = choose_assignor(self.decoded.view, self.settings.assignor, ends_known=self.ends_known)
        max_delay_ms = self.settings.config.scheduled_rebalance_max_delay_ms
        return choice, read_restarts(self._next_view(()), max_delay_ms).wrap(assign)

    def cluster_at_last_join(self) -> Cluster:
        """Return the cluster as the leader saw it, with today's end offsets."""
        return build_cluster(self.decoded.view, self._question, self.tasks, javas=self._javas)

    def cluster_at_next_join(self, caught_up: Collection[tuple[UUID, TaskId]] = ()) -> Cluster:
        """Return the cluster if all members joined now. ``caught_up``: replicas that count as read to the end."""
        return build_cluster(self._next_view(caught_up), self._question, self.tasks, javas=self._javas)

    @property
    def copies(self) -> frozenset[tuple[UUID, TaskId]]:
        """Every standby and warm-up of a stateful task, with its process."""
        processes = self.decoded.processes
        return frozenset((process.process_id, task) for process in processes for task in process.copies & self.stateful)

    def _next_view(self, caught_up: Collection[tuple[UUID, TaskId]]) -> GroupView:
        processes = {}
        for process in self.decoded.processes:
            process_id = process.process_id
            ended = {task for process, task in caught_up if process == process_id}
            outdated = process.active | self.deleted_state(process)
            processes[process_id] = tuple(
                self._rejoining(consumer, self.decoded.members[consumer.member.member_id], outdated, ended)
                for consumer in self.decoded.view.processes[process_id]
            )
        return replace(self.decoded.view, processes=processes)

    def _rejoining(
        self, consumer: Consumer, member: DecodedMember, outdated: frozenset[TaskId], ended: Collection[TaskId]
    ) -> Consumer:
        """Return this consumer at its next join: it owns its assigned tasks and reports them as running.

        ``outdated``: tasks whose numbers of the last join no longer hold. A task that ran here at the last join and no
        longer does was read to the end, or nearly.
        """
        if member.given is None:
            return consumer
        reported, lags = consumer.info.reported_tasks, consumer.info.task_lags is not None
        numbers = {task: number for task, number in reported.items() if task not in outdated}
        ended = {*ended, *(task for task, number in numbers.items() if number == RUNNING_OFFSET_SUM)}
        numbers.update((task, 0 if lags else self.end_offset_sums.get(task, 0)) for task in ended)
        active = member.given.active.keys() & self.stateful
        numbers.update(dict.fromkeys(active, 0 if lags else RUNNING_OFFSET_SUM))
        owned = tuple(partition for partitions in member.given.active.values() for partition in partitions)
        report = _telling(consumer.info, numbers)
        if report.trailer is not None:
            trailer = replace(report.trailer, restarting=False, awaited=self.decoded.awaited, generation=None)
            report = replace(report, trailer=trailer)
        return Consumer(replace(consumer.member, owned=owned), report)

    @cached_property
    def _question(self) -> DecisionInput:
        snapshot = self.decoded.snapshot
        wanted = lookups(self.topology.shape, snapshot.group, snapshot.partition_counts).end_offsets
        known = all(partition in snapshot.end_offsets for partition in wanted)
        return DecisionInput(
            application_id=snapshot.group,
            topology=self.topology.shape,
            assignor=self.settings.assignor,
            config=self.settings.config,
            leader=NO_LEADER,
            partition_counts=snapshot.partition_counts,
            end_offsets=snapshot.end_offsets if known else None,
            now_ms=snapshot.taken_ms,
            promised=self.decoded.promised,
            loads=trailer.loads if (trailer := self.decoded.trailer) else {},
        )


def _left_state(process: DecodedProcess) -> frozenset[TaskId]:
    """Return the tasks that a process reported state of and does not have; none if its tasks are not known."""
    if any(member.given is None for member in process.members):
        return frozenset()
    return frozenset(process.offset_sums) - process.active - process.copies


def _telling(report: MemberReport, numbers: Mapping[TaskId, int]) -> MemberReport:
    if report.task_lags is None:
        return replace(report, task_offset_sums=numbers)
    return replace(report, task_lags=numbers)
