"""A whole group as values: members that join, receive bytes and adopt them, without broker, clock or threads.

Nothing is implemented twice: subscriptions, decisions and assignments are the real ones, with real bytes. Only the
coordinator (every member joins and gets an answer) and the disks (offset sums) are simulated here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.awaiting import count_down
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.leader import DecisionInput, decide, lookups
from kstreams_assign.group.size import RECORD_BYTES_MAX, assigned_bytes, joined_bytes
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import RUNNING_OFFSET_SUM, Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION, MemberTrailer

APPLICATION = "app"
END = 50_000


def shape(*, stateless: bool = False) -> TopologyShape:
    subs = [SubtopologyShape(("orders",), (Store("totals"),))]
    return TopologyShape(tuple(subs + ([SubtopologyShape(("clicks",))] if stateless else [])))


@dataclass
class LittleMember:
    process: UUID
    adopted: Adopted | None = None
    positions: dict[TaskId, int] = field(default_factory=dict)
    endpoint: str | None = None
    ours: bool = True
    assignors: dict[str, int] = field(default_factory=known_assignors)
    draining: bool = False
    restarting: bool = False
    passed_ms: int = 0
    """Since its last assignment, by its clock."""
    knows_restarts: bool = True
    """Its release knows of them."""
    generation: int | None = None
    """Of its last assignment; None also if its release does not report it."""
    misses: bool = False
    """SyncGroup's answer is lost: it does not get the next assignments."""
    exactly_once: bool = False
    settings_digest: str = "usual"
    topics: tuple[str, ...] = ("orders",)
    newest: int = LATEST_SUPPORTED_VERSION
    """The newest version of Apache's user-data that its release knows; it begins with that."""
    used: int | None = None
    rack: str | None = None
    balance_by: str = "tasks"
    loads: dict[TaskId, int] = field(default_factory=dict)
    """As it measures them, of its running tasks."""
    closing: set[TaskId] = field(default_factory=set)
    """Tasks of a membership that it has lost: it still reports that they run."""

    @property
    def name(self) -> str:
        return f"member-{self.process.int}"

    @property
    def owned(self) -> list[TopicPartition]:
        return [p for ps in self.adopted.active.values() for p in ps] if self.adopted else []

    @property
    def running(self) -> set[TaskId]:
        return set(self.adopted.active) if self.adopted else set()

    def joins(self, dialect: Dialect) -> JoinedMember:
        running = self.running | self.closing
        sums = {task: RUNNING_OFFSET_SUM if task in running else at for task, at in sorted(self.positions.items())}
        lags = {task: 0 if at == RUNNING_OFFSET_SUM else END - at for task, at in sums.items()}
        newest = self.newest if dialect.probes_versions else dialect.latest_version
        self.used = (self.used if dialect.probes_versions else None) or newest
        if self.used > dialect.latest_version:
            future = struct.pack(">ii", self.used, newest) + b"bytes of a later version"
            return JoinedMember(self.name, self.topics, tuple(self.owned), future)
        report = MemberReport(
            self.used,
            newest,
            self.process,
            self.endpoint,
            sums,
            lags if dialect.tells_lags else None,
            trailer=MemberTrailer(
                self.assignors,
                self.settings_digest,
                draining=self.draining,
                exactly_once=self.exactly_once,
                restarting=self.restarting,
                awaited=count_down(self.adopted.awaited, self.passed_ms)
                if self.adopted and self.knows_restarts
                else None,
                generation=self.generation if self.adopted and self.knows_restarts else None,
                balance_by=self.balance_by,
                loads={task: load for task, load in self.loads.items() if task in self.running},
            )
            if self.ours
            else None,
        )
        return JoinedMember(self.name, self.topics, tuple(self.owned), dialect.write_report(report), rack=self.rack)


@dataclass
class LittleGroup:
    topology: TopologyShape
    counts: dict[str, int]
    config: AssignConfig = field(default_factory=AssignConfig)
    assignor: str = "high_availability"
    members: dict[UUID, LittleMember] = field(default_factory=dict)
    end_offsets_known: bool = True
    restored_per_s: float | None = None
    now_ms: int = 1_000_000
    dialect: Dialect = APACHE
    warmup_queue: bool = False
    record_bytes_max: int = RECORD_BYTES_MAX
    replica_racks: dict[TopicPartition, frozenset[str]] = field(default_factory=dict)
    generation: int = 0
    record_bytes: int = 0
    """Of the last rebalance."""
    decision: Decision | None = None
    """The last one, also where a member refused what it got of it."""

    def add(self, number: int, endpoint: str | None = None) -> LittleMember:
        process = UUID(int=number)
        member = self.members[process] = LittleMember(process, endpoint=endpoint, topics=self.topology.source_topics)
        return member

    def remove(self, number: int) -> None:
        del self.members[UUID(int=number)]

    def rebalance(self) -> Decision:
        """Run one generation. The first member by id leads. Adopting opens stores; released tasks stay on disk."""
        leader = min(self.members.values(), key=lambda m: m.name)
        wanted = lookups(self.topology, APPLICATION, self.counts)
        question = DecisionInput(
            application_id=APPLICATION,
            topology=self.topology,
            assignor=self.assignor,
            config=self.config,
            leader=leader.process,
            partition_counts=self.counts,
            end_offsets=dict.fromkeys(wanted.end_offsets, END) if self.end_offsets_known else None,
            now_ms=self.now_ms,
            restored_per_s=self.restored_per_s,
            promised=leader.adopted.promised if leader.adopted else {},
            loads=leader.adopted.loads if leader.adopted else {},
            warmup_queue=self.warmup_queue,
            record_bytes_max=self.record_bytes_max,
            replica_racks=self.replica_racks,
        )
        joined = [member.joins(self.dialect) for member in self.members.values()]
        self.decision = decision = decide(read_group(joined, self.dialect), question)
        self.record_bytes = joined_bytes(joined) + assigned_bytes(decision.assignments)
        self.generation += 1
        for member in self.members.values():
            if member.misses:
                continue
            member.generation = self.generation
            answer = decision.assignments[member.name]
            member.adopted = read_assignment(
                answer.partitions,
                answer.user_data,
                self.topology,
                member.process,
                dialect=self.dialect,
                leads=member is leader,
                used_version=member.used,
            )
            member.used = member.adopted.version
            for task in member.adopted.active:
                if self.topology.subtopologies[task.subtopology].stateful:
                    member.positions[task] = END
            for task in member.adopted.standby | member.adopted.warmup:
                member.positions.setdefault(task, 0)
        return decision

    def catch_up(self) -> None:
        for member in self.members.values():
            member.positions = dict.fromkeys(member.positions, END)

    def settle(self, rounds_max: int = 60) -> list[Decision]:
        """Rebalance, catching up in between, until nothing is withheld and no probe is due."""
        decisions = []
        for _ in range(rounds_max):
            decisions.append(self.rebalance())
            if not decisions[-1].withheld:
                self.catch_up()
                if decisions[-1].next_probe_ms is None:
                    return decisions
        raise AssertionError(f"not settled after {rounds_max} rebalances")

    def owners(self) -> dict[TaskId, UUID]:
        return {task: m.process for m in self.members.values() for task in m.running}
