"""A plain coordinator of one streams group (KIP-1071) that writes the records a broker would write, with any target.

The rules are those of Kafka's ``CurrentAssignmentBuilder``: a member first gives up what its target does not name, then
gets what no other member has. The targets are random, so tasks move more than with any assignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from typing import NamedTuple

from kstreams_assign.history.derive import derive
from kstreams_assign.history.records import EndOffset, RawRecords
from kstreams_assign.history.tables import Tables
from kstreams_assign.wire import (
    OffsetCommit,
    OffsetCommitKey,
    OwnedTasks,
    StreamsCurrentTasks,
    StreamsGroupMetadata,
    StreamsGroupTopology,
    StreamsKey,
    StreamsMemberMetadata,
    StreamsTargetMetadata,
    StreamsTargetTasks,
    encode_offset_commit,
    encode_offsets_key,
    encode_streams_key,
    encode_streams_value,
)
from kstreams_assign.wire.streams_records import CURRENT_MEMBER, GROUP, MEMBER, TARGET, TARGET_MEMBER, TOPOLOGY
from kstreams_assign.wire.streams_structs import Endpoint, StreamsSubtopology, TaskIds, TopicInfo

NAME = "streams-app"
PARTITION = 7
STATEFUL, STATELESS = "0", "1"
PARTITIONS = 3
TASKS = tuple((subtopology, partition) for subtopology in (STATEFUL, STATELESS) for partition in range(PARTITIONS))
INPUTS = {STATEFUL: ("orders", f"{NAME}-by-user-repartition"), STATELESS: ("clicks",)}
CHANGELOG = f"{NAME}-totals-changelog"
STABLE, UNREVOKED, UNRELEASED = 1, 2, 3
STARTED_MS = 1_750_000_000_000
A, B, C = (f"00000000-0000-0000-0000-00000000000{letter}" for letter in "abc")
"""Processes."""

Task = tuple[str, int]


class Record(NamedTuple):
    """A record of the group's partition; ``offset`` leaves a place before it for another."""

    offset: int
    time_ms: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Tasks:
    """What a member owns, is to own, or is to give up."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.active or self.standby)


@dataclass
class Member:
    """A member as its coordinator knows it."""

    process: str
    epoch: int = 0
    state: int = STABLE
    assigned: Tasks = Tasks()
    revoking: Tasks = Tasks()


@dataclass
class Coordinator:
    """``records`` is all that it wrote. ``joined``: how many members ever joined, for their names.

    ``planned``: the next targets, in place of random ones. ``assigning``: whether a heartbeat after a new epoch brings
    its target; the broker may delay it.
    """

    chance: Random
    now_ms: int = STARTED_MS
    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    topology_epoch: int = 0
    metadata_hash: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    joined: int = 0
    assigning: bool = True
    planned: list[dict[str, Tasks]] = field(default_factory=list)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def join(self, process: str, *, tags: Mapping[str, str] | None = None, endpoint: str | None = None) -> str:
        """A new member, with its first answer."""
        self.joined += 1
        member_id = f"member-{self.joined}"
        self.members[member_id] = Member(process)
        self.describe(member_id, tags=tags, endpoint=endpoint)
        if not self.topology_epoch:
            self.declare()
        self.bump()
        self.beat(member_id)
        return member_id

    def describe(
        self, member_id: str, *, tags: Mapping[str, str] | None = None, endpoint: str | None = None, process: str = ""
    ) -> None:
        """What the member says of itself."""
        member = self.members[member_id]
        member.process = process or member.process
        value = StreamsMemberMetadata(
            instance_id=None,
            rack_id=None,
            client_id=f"client-{member_id}",
            client_host="/10.0.0.1",
            rebalance_timeout_ms=300_000,
            topology_epoch=self.topology_epoch,
            process_id=member.process,
            user_endpoint=None if endpoint is None else Endpoint(endpoint, 8080),
            client_tags=tags or {},
        )
        self._write(MEMBER, member_id, value)

    def declare(self) -> None:
        """The topology, which makes no epoch of the group by itself."""
        self.topology_epoch += 1
        subtopologies = (
            StreamsSubtopology(
                STATEFUL,
                source_topics=(INPUTS[STATEFUL][0],),
                state_changelog_topics=(TopicInfo(CHANGELOG),),
                repartition_source_topics=(TopicInfo(INPUTS[STATEFUL][1], PARTITIONS),),
            ),
            StreamsSubtopology(STATELESS, source_topics=INPUTS[STATELESS]),
        )
        self._write(TOPOLOGY, None, StreamsGroupTopology(self.topology_epoch, subtopologies))

    def bump(self) -> None:
        self.epoch += 1
        self.write_epoch()

    def write_epoch(self) -> None:
        settings = dict(self.settings)
        self._write(GROUP, None, StreamsGroupMetadata(self.epoch, self.metadata_hash, last_assignment_configs=settings))

    def remove(self, member_id: str) -> None:
        """It left, or its session ended."""
        for kind in (CURRENT_MEMBER, TARGET_MEMBER, MEMBER):
            self._write(kind, member_id, None)
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.bump()

    def beat(self, member_id: str) -> None:
        """A heartbeat, in which the member owns no more what it was to give up."""
        if self.assigning and self.target_epoch < self.epoch:
            self._assign()
        member = self.members[member_id]
        after = self._reconciled(member_id, member)
        if after != member:
            self.members[member_id] = after
            self.write_tasks(member_id)

    def settle(self) -> None:
        """Heartbeats of all members until none brings anything new, with the target of the last epoch."""
        self.assigning = True
        before = -1
        while before != len(self.records):
            before = len(self.records)
            for member_id in list(self.members):
                self.wait(50)
                self.beat(member_id)

    def commit(self, member_id: str, only: Iterable[Task] = TASKS) -> None:
        """Of the active tasks that it runs."""
        member = self.members[member_id]
        self.set_offsets((member.assigned.active | member.revoking.active).intersection(only))

    def set_offsets(self, tasks: Iterable[Task]) -> None:
        """Commits of these tasks, as an operator makes them of a group without members."""
        for subtopology, partition in sorted(tasks):
            topic = self.chance.choice(INPUTS[subtopology])
            value = encode_offset_commit(OffsetCommit(4, len(self.records), "", self.now_ms))
            self._append(encode_offsets_key(OffsetCommitKey(NAME, topic, partition)), value)

    def delete(self) -> None:
        """The group is empty and deleted."""
        for kind in (TARGET, GROUP, TOPOLOGY):
            self._write(kind, None, None)
        self.epoch = self.target_epoch = self.topology_epoch = 0

    def write_tasks(self, member_id: str) -> None:
        member = self.members[member_id]
        value = StreamsCurrentTasks(
            member_epoch=member.epoch,
            previous_member_epoch=max(0, member.epoch - 1),
            state=member.state,
            active_tasks=owned(member.assigned.active),
            standby_tasks=owned(member.assigned.standby),
            warmup_tasks=(),
            active_tasks_pending_revocation=owned(member.revoking.active),
            standby_tasks_pending_revocation=owned(member.revoking.standby),
            warmup_tasks_pending_revocation=(),
        )
        self._write(CURRENT_MEMBER, member_id, value)

    def write_target_epoch(self) -> None:
        self._write(TARGET, None, StreamsTargetMetadata(self.target_epoch))

    def _assign(self) -> None:
        processes = {name: member.process for name, member in self.members.items()}
        self.targets = self.planned.pop(0) if self.planned else random_targets(self.chance, processes)
        for member_id, tasks in self.targets.items():
            value = StreamsTargetTasks(task_ids(tasks.active), task_ids(tasks.standby), ())
            self._write(TARGET_MEMBER, member_id, value)
        self.target_epoch = self.epoch
        self.write_target_epoch()

    def _reconciled(self, member_id: str, member: Member) -> Member:
        if member.state == STABLE and member.epoch == self.target_epoch:
            return member
        target, assigned = self.targets.get(member_id, Tasks()), member.assigned
        epoch = member.epoch + 1 if member.state == UNREVOKED else member.epoch
        kept = Tasks(assigned.active & target.active, assigned.standby & target.standby)
        revoking = Tasks(assigned.active - target.active, assigned.standby - target.standby)
        if revoking:
            return replace(member, epoch=epoch, state=UNREVOKED, assigned=kept, revoking=revoking)
        active = target.active - kept.active - self._running() - self._copies_of(member.process)
        standby = target.standby - kept.standby - self._running(member.process) - self._copies_of(member.process)
        got = Tasks(kept.active | active, kept.standby | standby)
        return replace(
            member,
            epoch=self.target_epoch,
            state=STABLE if got == target else UNRELEASED,
            assigned=got,
            revoking=Tasks(),
        )

    def _running(self, process: str = "") -> frozenset[Task]:
        members = [member for member in self.members.values() if process in {"", member.process}]
        return frozenset().union(*(member.assigned.active | member.revoking.active for member in members))

    def _copies_of(self, process: str) -> frozenset[Task]:
        members = [member for member in self.members.values() if member.process == process]
        return frozenset().union(*(member.assigned.standby | member.revoking.standby for member in members))

    def _write(self, kind: int, member_id: str | None, value: object) -> None:
        key = encode_streams_key(StreamsKey(kind, NAME, member_id))
        self._append(key, None if value is None else encode_streams_value(value))  # type: ignore[arg-type]

    def _append(self, key: bytes, value: bytes | None) -> None:
        self.records.append(Record(2 * len(self.records) + 1, self.now_ms, key, value))


def random_targets(chance: Random, processes: Mapping[str, str]) -> dict[str, Tasks]:
    """Each task active in some member, and stateful ones a standby in a member of another process, if there is one."""
    active: dict[str, set[Task]] = {member_id: set() for member_id in processes}
    standby: dict[str, set[Task]] = {member_id: set() for member_id in processes}
    for task in TASKS:
        owner = chance.choice(sorted(processes))
        active[owner].add(task)
        others = sorted(member_id for member_id in processes if processes[member_id] != processes[owner])
        if others and task[0] == STATEFUL:
            standby[chance.choice(others)].add(task)
    return {name: Tasks(frozenset(active[name]), frozenset(standby[name])) for name in processes}


def owned(tasks: Iterable[Task]) -> tuple[OwnedTasks, ...]:
    return tuple(OwnedTasks(row.subtopology_id, row.partitions) for row in task_ids(tasks))


def task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    rows = groupby(sorted(tasks), key=lambda task: task[0])
    return tuple(TaskIds(name, tuple(partition for _, partition in held)) for name, held in rows)


def columns(records: Sequence[Record]) -> RawRecords:
    """The records as ``derive`` takes them."""
    return RawRecords(
        [PARTITION] * len(records),
        [record.offset for record in records],
        [record.time_ms for record in records],
        [record.key for record in records],
        [record.value for record in records],
    )


def derived(records: Sequence[Record], ends: Iterable[EndOffset] = ()) -> Tables:
    """The tables of all records at once."""
    return derive(None, columns(records), ends)[1]


def two_members() -> tuple[Coordinator, str, str]:
    """A group of the processes A and B, their member ids, and both joins completed."""
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A, tags={"zone": "x"}, endpoint="a.example.org")
    coordinator.settle()
    coordinator.wait(1_000)
    second = coordinator.join(B)
    coordinator.wait(2_000)
    coordinator.settle()
    return coordinator, first, second
