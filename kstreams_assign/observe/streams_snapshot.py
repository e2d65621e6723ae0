"""A streams group (KIP-1071) at one moment: the broker's description, and the topics and offsets around it.

What lives here: the value, and what follows from it without judgement: tasks, owners, what members still have to give
up. What must not: sentences (``streams_reasons``), and how it is fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import DescribedStreamsGroup, DescribedStreamsMember, MemberTasks, StreamsSubtopology, TaskIds


class StreamsTask(NamedTuple):
    """A task by the broker's own id of its subtopology, which is a string."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


Tasks = tuple[StreamsTask, ...]


@dataclass(frozen=True, slots=True)
class Roles:
    """The tasks of one member, by role, each sorted."""

    active: Tasks = ()
    standby: Tasks = ()
    warmup: Tasks = ()

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def without(self, other: Roles) -> Roles:
        """Return the tasks that ``other`` does not have in the same role."""
        return Roles(
            _less(self.active, other.active), _less(self.standby, other.standby), _less(self.warmup, other.warmup)
        )


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member: what it owns, and what it is to own. ``lags``: task -> records, of the tasks that it reports."""

    described: DescribedStreamsMember
    owned: Roles
    target: Roles
    lags: Mapping[StreamsTask, int]

    @property
    def is_away(self) -> bool:
        """Whether this static member has closed and is to come back (epoch -2): it runs none of its tasks."""
        return self.described.member_epoch < 0

    @property
    def to_revoke(self) -> Roles:
        """What it owns and still has to give up, before its next heartbeat; see ``is_behind``."""
        return self.owned.without(self.target)

    @property
    def awaited(self) -> Roles:
        """What it is to own and was not given yet."""
        return self.target.without(self.owned)


@dataclass(frozen=True)
class StreamsSnapshot:
    """A group, and the topics and offsets around it, all of about the time ``taken_ms``.

    ``partition_counts`` has the existing topics of the topology. ``settings`` are the broker's for this group, by
    Kafka's names. ``gaps``: what could not be read, and why.
    """

    group: DescribedStreamsGroup
    taken_ms: int
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    begin_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def subtopologies(self) -> tuple[StreamsSubtopology, ...]:
        topology = self.group.topology
        return (topology.subtopologies or ()) if topology else ()

    @cached_property
    def members(self) -> tuple[SeenMember, ...]:
        return tuple(_seen(member) for member in sorted(self.group.members, key=lambda member: member.member_id))

    @cached_property
    def processes(self) -> Mapping[str, tuple[SeenMember, ...]]:
        """The members by process id."""
        ids = sorted({member.described.process_id for member in self.members})
        return {name: tuple(member for member in self.members if member.described.process_id == name) for name in ids}

    @cached_property
    def tasks(self) -> Tasks:
        """Every task of the topology: as many in a subtopology as its largest source has partitions."""
        return _sorted(
            StreamsTask(subtopology.subtopology_id, number)
            for subtopology in self.subtopologies
            for number in range(max((self.partition_counts.get(topic, 0) for topic in sources(subtopology)), default=0))
        )

    @cached_property
    def changelogs(self) -> Mapping[StreamsTask, tuple[TopicPartition, ...]]:
        """Stateful task -> the partitions of its changelogs."""
        logs = {subtopology.subtopology_id: subtopology.state_changelog_topics for subtopology in self.subtopologies}
        return {
            task: tuple(TopicPartition(log.name, task.partition) for log in logs[task.subtopology_id])
            for task in self.tasks
            if logs[task.subtopology_id]
        }

    @cached_property
    def changelog_sizes(self) -> Mapping[StreamsTask, int | None]:
        """Stateful task -> offsets in its changelogs, begin to end; ``None`` if one of them is not known."""
        return {task: self._size(partitions) for task, partitions in self.changelogs.items()}

    def state_size(self, subtopology: StreamsSubtopology) -> int | None:
        """Return the offsets in a subtopology's changelogs, also without tasks; ``None`` if one of them is not known.

        It has no tasks while its source topics do not exist.
        """
        logs = [log.name for log in subtopology.state_changelog_topics]
        if not self.partition_counts.keys() >= set(logs):
            return None
        return self._size([TopicPartition(log, number) for log in logs for number in range(self.partition_counts[log])])

    def _size(self, partitions: Collection[TopicPartition]) -> int | None:
        if not self.end_offsets.keys() >= set(partitions):
            return None
        return sum(self.end_offsets[at] - self.begin_offsets.get(at, 0) for at in partitions)

    @cached_property
    def owners(self) -> Mapping[StreamsTask, SeenMember]:
        """Active task -> the member that is described with it."""
        return {task: member for member in self.members for task in member.owned.active}

    def is_behind(self, member: SeenMember) -> bool:
        """Whether a member is before the assignment's epoch, so that it may be giving up tasks that are not described.

        From a member's first heartbeat under a new target the description has only the tasks that it keeps, and it
        stays at its epoch until it has revoked the others (Kafka: ``CurrentAssignmentBuilder.buildNewMember``). A
        static member that is away has nothing to revoke.
        """
        return not member.is_away and member.described.member_epoch < self.group.assignment_epoch


def sources(subtopology: StreamsSubtopology) -> tuple[str, ...]:
    """Return the topics that a subtopology reads, with repartition topics."""
    return (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))


def topics_of(group: DescribedStreamsGroup) -> frozenset[str]:
    """Return all topics that the topology names."""
    subtopologies = (group.topology.subtopologies or ()) if group.topology else ()
    return frozenset(
        topic
        for subtopology in subtopologies
        for topic in (
            *sources(subtopology),
            *subtopology.repartition_sink_topics,
            *(log.name for log in subtopology.state_changelog_topics),
        )
    )


def changelog_partitions(group: DescribedStreamsGroup, counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return the existing partitions of the group's changelogs."""
    subtopologies = (group.topology.subtopologies or ()) if group.topology else ()
    logs = [log.name for subtopology in subtopologies for log in subtopology.state_changelog_topics]
    return [TopicPartition(log, number) for log in logs for number in range(counts.get(log, 0))]


def _seen(member: DescribedStreamsMember) -> SeenMember:
    ends = {StreamsTask(row.subtopology_id, row.partition): row.offset for row in member.task_end_offsets}
    at = {StreamsTask(row.subtopology_id, row.partition): row.offset for row in member.task_offsets}
    lags = {task: max(0, ends[task] - offset) for task, offset in at.items() if task in ends}
    return SeenMember(member, _roles(member.assignment), _roles(member.target_assignment), lags)


def _roles(tasks: MemberTasks) -> Roles:
    return Roles(_rows(tasks.active_tasks), _rows(tasks.standby_tasks), _rows(tasks.warmup_tasks))


def _rows(rows: Iterable[TaskIds]) -> Tasks:
    return _sorted(StreamsTask(row.subtopology_id, partition) for row in rows for partition in row.partitions)


def _sorted(tasks: Iterable[StreamsTask]) -> Tasks:
    """Sort by number where ids are numbers: 2 before 10."""
    return tuple(sorted(tasks, key=lambda task: (len(task.subtopology_id), *task)))


def _less(tasks: Tasks, others: Tasks) -> Tasks:
    held = set(others)
    return tuple(task for task in tasks if task not in held)
