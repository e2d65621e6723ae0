"""A snapshot's bytes as values: every process and member with its report and its assignment.

What lives here: combining what ``wire`` and ``group`` read. What must not: judgements (``describe``), and anything
that the bytes do not contain. No member's bytes raise an error here: an unreadable member is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from kstreams_assign.assign import common_rack
from kstreams_assign.errors import MalformedUserData, NotAStreamsGroup
from kstreams_assign.group.adoption import active_tasks, build_adopted
from kstreams_assign.group.awaiting import count_down
from kstreams_assign.group.dialects import DIALECTS, Dialect, MemberReport
from kstreams_assign.group.joining import read_given, read_member
from kstreams_assign.group.values import Adopted, ErrorCode, JoinedMember
from kstreams_assign.group.view import GroupView, read_group
from kstreams_assign.model import NO_PROBE_MS, TaskId, TopicPartition
from kstreams_assign.observe.snapshot import DescribedMember, GroupSnapshot
from kstreams_assign.wire import (
    AssignmentInfo,
    AwaitedProcess,
    GroupTrailer,
    whole_trailer,
)

CONSUMER = "consumer"
SUBTOPOLOGIES_MAX = 10_000
"""More than a topology has: each reads topics of its own. Its shape has a place for each number up to the largest."""


@dataclass(frozen=True, slots=True)
class DecodedMember:
    """One consumer. ``joined`` and ``report``: its subscription; ``info`` and ``given``: its assignment.

    Each is None if it could not be read; ``unreadable`` has the reasons. ``given.warmup`` is empty without a trailer.
    """

    described: DescribedMember
    joined: JoinedMember | None = None
    report: MemberReport | None = None
    info: AssignmentInfo | None = None
    given: Adopted | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def member_id(self) -> str:
        return self.described.member_id

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The input partitions that it owned when it joined."""
        return self.joined.owned if self.joined else ()


@dataclass(frozen=True, slots=True)
class DecodedProcess:
    """One process: its consumers, and their reports and tasks together."""

    process_id: UUID
    members: tuple[DecodedMember, ...]

    @property
    def report(self) -> MemberReport:
        """The first consumer's report: all consumers report the process's version, endpoint, tags and trailer."""
        report = self.members[0].report
        assert report is not None, "a process is known from its report"
        return report

    @property
    def rack(self) -> str | None:
        """``client.rack``, if all consumers report the same."""
        return common_rack(member.joined.rack if member.joined else None for member in self.members)

    @property
    def ours(self) -> bool:
        return self.report.trailer is not None

    @property
    def active(self) -> frozenset[TaskId]:
        return frozenset(task for given in self._given for task in given.active)

    @property
    def copies(self) -> frozenset[TaskId]:
        """Standbys and warm-ups."""
        return frozenset(task for given in self._given for task in given.standby | given.warmup)

    @property
    def warmup(self) -> frozenset[TaskId] | None:
        """The replicas that only catch up; None if the leader does not report them."""
        if any(member.info and member.info.trailer for member in self.members):
            return frozenset(task for given in self._given for task in given.warmup)
        return None

    @property
    def standby(self) -> frozenset[TaskId]:
        """The replicas that are not reported as warm-ups."""
        return self.copies - (self.warmup or frozenset())

    @property
    def offset_sums(self) -> Mapping[TaskId, int]:
        """Task -> its number in the last join: an offset sum, or a lag in the KIP's dialect."""
        reports = (member.report for member in self.members if member.report)
        return {task: number for report in reports for task, number in report.reported_tasks.items()}

    def positions(self, ends: Mapping[TaskId, int]) -> Mapping[TaskId, int]:
        """Return what it reported of the tasks in ``ends`` as offset sums, in either dialect."""
        known = {task: number for task, number in self.offset_sums.items() if task in ends}
        if self.report.task_lags is None:
            return known
        return {task: max(0, ends[task] - lag) for task, lag in known.items()}

    @property
    def _given(self) -> list[Adopted]:
        return [member.given for member in self.members if member.given]


@dataclass(frozen=True)
class DecodedGroup:
    """A whole group. ``view`` is what its leader saw before the last assignment."""

    snapshot: GroupSnapshot
    dialect: Dialect
    view: GroupView
    members: Mapping[str, DecodedMember]

    @cached_property
    def processes(self) -> tuple[DecodedProcess, ...]:
        """In the order of their ids' text. Members whose user-data cannot be read belong to none."""
        return tuple(
            DecodedProcess(process, tuple(self.members[c.member.member_id] for c in self.view.processes[process]))
            for process in sorted(self.view.processes, key=str)
        )

    @property
    def unreadable(self) -> dict[str, tuple[str, ...]]:
        """Member -> why parts of its bytes could not be read."""
        return {name: member.unreadable for name, member in self.members.items() if member.unreadable}

    @cached_property
    def trailer(self) -> GroupTrailer | None:
        """What the leader reported beside the tasks; None if it is not ours."""
        infos = (member.info for member in self.members.values() if member.info)
        return whole_trailer(info.trailer for info in infos if info.trailer)

    @cached_property
    def owners(self) -> dict[TaskId, UUID]:
        """Active task -> its process, as assigned, without tasks that a KIP-429 rebalance withholds."""
        return {task: process.process_id for process in self.processes for task in process.active}

    @property
    def promised(self) -> Mapping[TaskId, UUID]:
        """Withheld task -> the process that gets it in the follow-up, if the leader reports it."""
        return self.trailer.owners if self.trailer else {}

    @property
    def awaited(self) -> Mapping[UUID, AwaitedProcess]:
        """The processes that restart, with the time that is left now. The record's time counts as that of the join."""
        if self.trailer is None:
            return {}
        assigned_ms = self.snapshot.assigned_ms
        return count_down(self.trailer.awaited, 0 if assigned_ms is None else self.snapshot.taken_ms - assigned_ms)

    @property
    def waiting(self) -> dict[TaskId, UUID]:
        """The tasks that run nowhere until a process is back, each with that process."""
        away = {process: each for process, each in self.awaited.items() if process not in self.view.processes}
        return {task: process for process, each in away.items() for task in each.active if task not in self.owners}

    @property
    def next_rebalance_ms(self) -> int | None:
        """The earliest wall-clock time at which a member asks for a rebalance; 0 = at once, None = never."""
        asked = [m.info.next_rebalance_ms for m in self.members.values() if m.info]
        times = [*asked, *([self.trailer.next_probe_ms] if self.trailer and self.trailer.next_probe_ms else [])]
        return min((time for time in times if time != NO_PROBE_MS), default=None)

    @property
    def errors(self) -> dict[str, int]:
        """Member -> the error code (``ErrorCode``) in its report or assignment, if any."""
        reported = {name: m.report.error_code for name, m in self.members.items() if m.report}
        answered = {name: m.info.error_code for name, m in self.members.items() if m.info}
        return {name: code for name, code in (*reported.items(), *answered.items()) if code != ErrorCode.NONE}


def decode_group(snapshot: GroupSnapshot) -> DecodedGroup:
    """Read everything in the bytes. Raises ``NotAStreamsGroup`` for another kind of group, and nothing else."""
    dialect = _dialect(snapshot)
    members = {member.member_id: _read_subscription(member) for member in snapshot.members}
    view = read_group([member.joined for member in members.values() if member.joined], dialect)
    for process, consumers in view.processes.items():
        for consumer in consumers:
            name = consumer.member.member_id
            members[name] = _read_assignment(replace(members[name], report=consumer.info), dialect, process)
    newer = {name: f"speaks version {used}, newer than {dialect.latest_version}" for name, used in view.future.items()}
    for name, why in (*view.unreadable.items(), *newer.items()):
        members[name] = replace(members[name], unreadable=(*members[name].unreadable, f"subscription: {why}"))
    return DecodedGroup(snapshot, dialect, view, members)


def _dialect(snapshot: GroupSnapshot) -> Dialect:
    by_protocol = {dialect.protocol_name: dialect for dialect in DIALECTS.values()}
    if not snapshot.protocol and not snapshot.members:
        return DIALECTS["apache"]  # an empty group has no protocol
    if snapshot.protocol_type not in {CONSUMER, ""}:
        raise NotAStreamsGroup(f"group {snapshot.group} is of the type {snapshot.protocol_type!r}, no consumer group")
    if snapshot.protocol and snapshot.protocol not in by_protocol:
        raise NotAStreamsGroup(
            f"group {snapshot.group} is a plain consumer group: it assigns by {snapshot.protocol!r}, "
            f"where Kafka Streams has {' or '.join(map(repr, by_protocol))}"
        )
    return by_protocol.get(snapshot.protocol, DIALECTS["apache"])


def _read_subscription(member: DescribedMember) -> DecodedMember:
    try:
        return DecodedMember(member, read_member(member.member_id, member.subscription, member.instance_id))
    except MalformedUserData as why:
        return DecodedMember(member, unreadable=(f"subscription: {why}",))


def _read_assignment(member: DecodedMember, dialect: Dialect, process: UUID) -> DecodedMember:
    try:
        given = read_given(member.described.assignment)
        info = dialect.read_assignment(given.user_data or b"")
        active = active_tasks(given.assigned_partitions, info) if info.error_code == ErrorCode.NONE else {}
        _check_tasks((*active, *info.standby_tasks))
    except MalformedUserData as why:
        return replace(member, unreadable=(*member.unreadable, f"assignment: {why}"))
    return replace(member, info=info, given=build_adopted(active, info, process))


def _check_tasks(tasks: Collection[TaskId]) -> None:
    """Raise ``MalformedUserData`` for a subtopology that no topology has, and where only some topologies have names."""
    if len({task.topology is None for task in tasks}) > 1:
        raise MalformedUserData("some tasks have the name of a topology, and others do not")
    for task in tasks:
        if not 0 <= task.subtopology < SUBTOPOLOGIES_MAX:
            raise MalformedUserData(f"task {task}: a subtopology's number must be 0 to {SUBTOPOLOGIES_MAX - 1:,}")
