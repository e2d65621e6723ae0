"""One completed generation as it is read from its record: who was in it, and what each member said and was given.

What lives here: bytes -> values for a whole generation, tolerant of each member's damage. What must not: rows, and
anything about another generation. Tasks and processes are text from here on, as they stand in the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.group.dialects import APACHE, KIP441, Dialect, MemberReport
from kstreams_assign.history.reading import Assignments, Inputs, ReadAssignment, task_text
from kstreams_assign.history.tables import GENERATION
from kstreams_assign.model import NO_PROBE_MS, RUNNING_OFFSET_SUM, TopicPartition
from kstreams_assign.wire import (
    OFFSET_SUMS_VERSION,
    AssignmentInfo,
    ConsumerAssignment,
    ConsumerSubscription,
    FutureSubscription,
    GroupMetadata,
    GroupTrailer,
    StoredMember,
    decode_consumer_assignment,
    decode_consumer_subscription,
    whole_trailer,
)

DIALECT_OF: Mapping[str | None, Dialect] = {dialect.protocol_name: dialect for dialect in (APACHE, KIP441)}
"""By the protocol that a group chose; any other protocol is none of Kafka Streams'."""


class Place(NamedTuple):
    """What identifies a generation in every table."""

    group: str
    generation: int
    partition: int
    offset: int
    time_ms: int

    def columns(self) -> dict[str, str | int]:
        """Column -> value, as they stand in every table."""
        return dict(zip(GENERATION, self, strict=True))


class Damage(NamedTuple):
    """Bytes of one member that cannot be read, and why."""

    reason: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member of a generation. What could not be read is None or empty, and ``unreadable`` says why.

    ``common`` holds what its assignment says behind its tasks (``reading.ReadAssignment``).
    """

    raw: StoredMember
    process: str | None = None
    report: MemberReport | FutureSubscription | None = None
    said: ConsumerSubscription | None = None
    given: ConsumerAssignment | None = None
    common: AssignmentInfo | None = None
    active: Inputs = field(default_factory=dict)
    standby: Inputs = field(default_factory=dict)
    unreadable: str | None = None

    @property
    def identity(self) -> str:
        """What stays the same while it is a member: a static member's instance id, else its member id."""
        instance = self.raw.group_instance_id
        return self.raw.member_id if instance is None else f"instance {instance}"

    @property
    def readable_report(self) -> MemberReport | None:
        """What it said of itself, if that is of a version that we read."""
        return self.report if isinstance(self.report, MemberReport) else None


@dataclass(frozen=True)
class Generation:
    """A generation of a Streams group, empty or stable."""

    place: Place
    metadata: GroupMetadata
    members: tuple[SeenMember, ...]
    damage: tuple[Damage, ...]
    dialect: Dialect

    @cached_property
    def processes(self) -> dict[str, list[SeenMember]]:
        """Process id -> its members, for all whose user-data could be read."""
        by_process: dict[str, list[SeenMember]] = {}
        for member in self.members:
            if member.process is not None:
                by_process.setdefault(member.process, []).append(member)
        return by_process

    @cached_property
    def owners(self) -> dict[str, str]:
        """Active task -> the process that got it."""
        return {task: process for process, seen in self.processes.items() for member in seen for task in member.active}

    @cached_property
    def copies(self) -> dict[str, list[str]]:
        """Task -> the processes that keep a copy of it without running it."""
        holders: dict[str, list[str]] = {}
        for process, seen in self.processes.items():
            for member in seen:
                for task in member.standby:
                    holders.setdefault(task, []).append(process)
        return holders

    @cached_property
    def inputs(self) -> dict[str, tuple[TopicPartition, ...]]:
        """Task -> its input partitions, for each assigned task."""
        return {
            task: inputs
            for member in self.members
            for task, inputs in (*member.standby.items(), *member.active.items())
        }

    @cached_property
    def offset_sums(self) -> dict[str, dict[str, int]]:
        """Process -> task -> the offset sum that it reported when joining; of two members' sums the greater counts."""
        sums_by_process: dict[str, dict[str, int]] = {}
        for process, seen in self.processes.items():
            sums = sums_by_process[process] = {}
            for member in seen:
                if member.readable_report is not None:
                    for task, total in member.readable_report.reported_tasks.items():
                        name = task_text(task)
                        sums[name] = max(total, sums.get(name, total))
        return sums_by_process

    @cached_property
    def tasks_with_state(self) -> set[str]:
        """Tasks of which a member reported state. Before version 7 it lists all that it ran, also those without."""
        reports = [member.readable_report for member in self.members if member.readable_report is not None]
        return {
            task_text(task)
            for report in reports
            for task, total in report.reported_tasks.items()
            if report.task_lags is not None or shows_state(total, report.version)
        }

    @cached_property
    def trailer(self) -> GroupTrailer | None:
        """What a leader of ours says behind the assignments."""
        return whole_trailer(
            member.common.trailer for member in self.members if member.common and member.common.trailer
        )

    @property
    def leader_process(self) -> str | None:
        return next((member.process for member in self.members if member.raw.member_id == self.metadata.leader), None)

    @cached_property
    def asked_ms(self) -> tuple[int, ...]:
        """Every time at which the assignments ask for another rebalance; 0 is at once."""
        requested = [member.common.next_rebalance_ms for member in self.members if member.common]
        probe = self.trailer.next_probe_ms if self.trailer else None
        return tuple(time for time in (*requested, probe) if time is not None and 0 <= time < NO_PROBE_MS)

    @property
    def probing(self) -> bool | None:
        """Whether the leader asked for another rebalance; None if these versions cannot ask."""
        if self.trailer is not None:
            return self.trailer.followup or bool(self.asked_ms)
        can_ask = any(member.common and member.common.version >= OFFSET_SUMS_VERSION for member in self.members)
        return bool(self.asked_ms) if can_ask and self.dialect.tells_probe else None

    @cached_property
    def revoked(self) -> list[TopicPartition]:
        """Input partitions that a member owned as it joined and was not given again (KIP-429: it rejoins)."""
        taken: list[TopicPartition] = []
        for member in self.members:
            if member.said is not None and member.given is not None and member.said.owned_partitions:
                kept = set(member.given.assigned_partitions)
                taken += [partition for partition in member.said.owned_partitions if partition not in kept]
        return taken


def shows_state(offset_sum: int, version: int) -> bool:
    """Return whether a task that a member reported has state: before version 7 it lists all tasks that it ran."""
    return version >= OFFSET_SUMS_VERSION or offset_sum != RUNNING_OFFSET_SUM


def read_generation(place: Place, metadata: GroupMetadata) -> Generation | None:
    """The generation, or None if its protocol is not Kafka Streams'. An empty generation has no protocol."""
    dialect = DIALECT_OF.get(metadata.protocol, None if metadata.members else APACHE)
    if dialect is None:
        return None
    damage: list[Damage] = []
    assignments = Assignments(dialect)
    members = tuple(_member(member, dialect, assignments, damage) for member in metadata.members)
    return Generation(place, metadata, members, tuple(damage), dialect)


def _member(raw: StoredMember, dialect: Dialect, assignments: Assignments, damage: list[Damage]) -> SeenMember:
    """Each half is read on its own: a damaged assignment leaves what the member said, and the other way round."""
    said, report, wrong_said = _said(raw, dialect)
    given, assignment, wrong_given = _given(raw, assignments)
    damage += [damaged for damaged in (wrong_said, wrong_given) if damaged is not None]
    unreadable = "; ".join(damaged.reason for damaged in (wrong_said, wrong_given) if damaged is not None) or None
    if isinstance(report, FutureSubscription):
        unreadable = f"speaks version {report.used_version}, newer than {dialect.latest_version}"
    return SeenMember(
        raw=raw,
        process=str(report.process_id) if isinstance(report, MemberReport) else None,
        report=report,
        said=said,
        given=given,
        common=assignment.common if assignment else None,
        active=_active(given, assignment),
        standby=assignment.own.standby if assignment else {},
        unreadable=unreadable,
    )


Said = tuple[ConsumerSubscription | None, MemberReport | FutureSubscription | None, Damage | None]
Given = tuple[ConsumerAssignment | None, ReadAssignment | None, Damage | None]


def _said(raw: StoredMember, dialect: Dialect) -> Said:
    said = None
    try:
        said = decode_consumer_subscription(raw.subscription)
        return said, _report(said.user_data or b"", dialect), None
    except MalformedUserData as wrong:
        return said, None, Damage(f"subscription of member {raw.member_id}: {wrong}", raw.subscription)


def _report(data: bytes, dialect: Dialect) -> MemberReport | FutureSubscription:
    """What a member reports. Raises ``MalformedUserData``, also for a task that no table can hold."""
    report = dialect.read_report(data)
    if isinstance(report, MemberReport):
        for task in report.reported_tasks:
            task_text(task)
    return report


def _given(raw: StoredMember, assignments: Assignments) -> Given:
    given = None
    try:
        given = decode_consumer_assignment(raw.assignment)
        assignment = assignments.read(given.user_data or b"")
    except MalformedUserData as wrong:
        return given, None, Damage(f"assignment of member {raw.member_id}: {wrong}", raw.assignment)
    if len(assignment.own.active) == len(given.assigned_partitions):
        return given, assignment, None
    why = f"{len(assignment.own.active)} active tasks for {len(given.assigned_partitions)} partitions"
    return given, None, Damage(f"assignment of member {raw.member_id} names {why}", raw.assignment)


def _active(given: ConsumerAssignment | None, assignment: ReadAssignment | None) -> Inputs:
    """The n-th task belongs to the n-th partition, in sorted order (``validateActiveTaskEncoding``)."""
    if given is None or assignment is None:
        return {}
    return grouped(zip(assignment.own.active, sorted(given.assigned_partitions), strict=True))


def grouped(pairs: Iterable[tuple[str, TopicPartition]]) -> dict[str, tuple[TopicPartition, ...]]:
    """Task -> all partitions that stand beside it."""
    by_task: dict[str, list[TopicPartition]] = {}
    for task, partition in pairs:
        by_task.setdefault(task, []).append(partition)
    return {task: tuple(inputs) for task, inputs in by_task.items()}
