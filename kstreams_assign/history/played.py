"""A group that is played: members that join with real bytes, a real leader's decision, real assignments, in memory.

What lives here: one group's life as values that ``generate`` and tests turn into records. What must not: bytes of
``__consumer_offsets``, files, chance. Only the coordinator (all join, all get an answer), the disks (offset sums) and
the time are played; user-data, decisions and KIP-429's withholding are those of the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.leader import DecisionInput, decide, lookups, settings_digest
from kstreams_assign.group.values import Adopted, JoinedMember, MemberAssignment
from kstreams_assign.group.view import read_group
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import MemberTrailer

UNLIMITED = 1 << 40
"""Nothing is left out of a record, as no other leader than ours does so (``group.size``)."""


class Thread(NamedTuple):
    """A member of the group: the n-th thread of a process. ``born`` distinguishes the lives of one process."""

    process: UUID
    number: int
    born: int

    @property
    def member_id(self) -> str:
        """As Java makes it: the client id, and a random part that the broker adds."""
        return f"{self.client_id}-{UUID(int=self.process.int ^ (self.born << 8) ^ self.number)}"

    @property
    def client_id(self) -> str:
        return f"{self.process}-StreamThread-{self.number}-consumer"


class PlayedMember(NamedTuple):
    """One thread in a generation: how it joined, and what it was answered."""

    thread: Thread
    joined: JoinedMember
    report: MemberReport
    answer: MemberAssignment


class PlayedGeneration(NamedTuple):
    """A completed generation; without members, an empty one."""

    time_ms: int
    generation: int
    leader: Thread | None
    members: tuple[PlayedMember, ...]


class PlayedCommit(NamedTuple):
    """The commit of one input partition."""

    time_ms: int
    partition: TopicPartition


@dataclass
class PlayedProcess:
    """A process with its threads and its disk. ``positions``: how far the state of each task is."""

    process: UUID
    endpoint: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    ours: bool = True
    adopted: dict[Thread, Adopted] = field(default_factory=dict)
    positions: dict[TaskId, int] = field(default_factory=dict)
    threads: list[Thread] = field(default_factory=list)

    @property
    def running(self) -> dict[TaskId, Thread]:
        return {task: thread for thread, adopted in self.adopted.items() for task in adopted.active}

    def report(self, thread: Thread, assignor: str, config: AssignConfig, dialect: Dialect) -> MemberReport:
        """What a thread says: its own tasks, and the first of them also what only lies on the disk."""
        held = {
            task: thread for thread, adopted in self.adopted.items() for task in (*adopted.active, *_copies(adopted))
        }
        running, first = self.running, min(self.threads)
        sums = {
            task: RUNNING_OFFSET_SUM if task in running else at
            for task, at in sorted(self.positions.items())
            if held.get(task, first) == thread
        }
        trailer = MemberTrailer(known_assignors(), settings_digest(assignor, config)) if self.ours else None
        newest = dialect.latest_version
        return MemberReport(newest, newest, self.process, self.endpoint, sums, client_tags=self.tags, trailer=trailer)


def _copies(adopted: Adopted) -> frozenset[TaskId]:
    return adopted.standby | adopted.warmup


@dataclass
class FleetGroup:
    """One group from its first generation on. ``end`` is where the changelogs of each task end, added up."""

    application_id: str
    topology: TopologyShape
    counts: dict[str, int]
    config: AssignConfig = field(default_factory=AssignConfig)
    assignor: str = "least_movement"
    end: int = 50_000
    now_ms: int = 0
    generation: int = 0
    processes: dict[UUID, PlayedProcess] = field(default_factory=dict)
    leader: Thread | None = None
    probe_ms: int | None = None
    withheld: bool = False
    ends_known: bool = True
    dialect: Dialect = APACHE

    def start(self, process: UUID, threads: int = 1, **about: object) -> PlayedProcess:
        """A process whose threads are there at the next rebalance. It finds its disk as it left it."""
        known = self.processes.get(process, PlayedProcess(process))
        started = self.processes[process] = replace(known, **about)  # type: ignore[arg-type]
        started.adopted = {}
        started.threads = [Thread(process, number, self.generation) for number in range(1, threads + 1)]
        return started

    def stop(self, process: UUID) -> None:
        """A process that is not there at the next rebalance."""
        del self.processes[process]

    def wait(self, ms: int, offsets_per_s: int = 10_000) -> None:
        """Let time pass; copies read on."""
        self.now_ms += ms
        for process in self.processes.values():
            for adopted in process.adopted.values():
                for task in _copies(adopted) & process.positions.keys():
                    process.positions[task] = min(self.end, process.positions[task] + ms * offsets_per_s // 1000)

    def commits(self) -> list[PlayedCommit]:
        """A commit now of every input partition of what runs."""
        inputs = {
            t: ps for process in self.processes.values() for a in process.adopted.values() for t, ps in a.active.items()
        }
        return [PlayedCommit(self.now_ms, partition) for task in sorted(inputs) for partition in inputs[task]]

    def owners(self) -> dict[TaskId, UUID]:
        return {task: process.process for process in self.processes.values() for task in process.running}

    def rebalance(self) -> PlayedGeneration:
        """One generation: all members join, the leader decides, all adopt."""
        self.generation += 1
        threads = sorted(thread for process in self.processes.values() for thread in process.threads)
        if not threads:
            self.leader, self.probe_ms, self.withheld = None, None, False
            return PlayedGeneration(self.now_ms, self.generation, None, ())
        promised = self._promised(threads)
        leader = self.leader = self.leader if self.leader in threads else threads[0]
        reports = {thread: self.processes[thread.process].report(thread, *self._settings) for thread in threads}
        joined = {thread: self._joined(thread, reports[thread]) for thread in threads}
        decision = decide(read_group(list(joined.values()), self.dialect), self._question(leader, promised))
        self.probe_ms, self.withheld = decision.next_probe_ms, bool(decision.withheld)
        for thread in threads:
            self._adopt(thread, decision.assignments[thread.member_id], leads=thread == leader)
        members = (
            PlayedMember(thread, joined[thread], reports[thread], decision.assignments[thread.member_id])
            for thread in threads
        )
        return PlayedGeneration(self.now_ms, self.generation, leader, tuple(members))

    @property
    def _settings(self) -> tuple[str, AssignConfig, Dialect]:
        return self.assignor, self.config, self.dialect

    def _promised(self, threads: list[Thread]) -> dict[TaskId, UUID]:
        if self.leader not in threads or self.leader is None:
            return {}
        adopted = self.processes[self.leader.process].adopted.get(self.leader)
        return dict(adopted.promised) if adopted else {}

    def _joined(self, thread: Thread, report: MemberReport) -> JoinedMember:
        adopted = self.processes[thread.process].adopted.get(thread)
        owned = tuple(partition for inputs in adopted.active.values() for partition in inputs) if adopted else ()
        return JoinedMember(
            thread.member_id, self.topology.source_topics, tuple(sorted(owned)), self.dialect.write_report(report)
        )

    def _question(self, leader: Thread, promised: dict[TaskId, UUID]) -> DecisionInput:
        wanted = lookups(self.topology, self.application_id, self.counts).end_offsets
        return DecisionInput(
            application_id=self.application_id,
            topology=self.topology,
            assignor=self.assignor,
            config=self.config,
            leader=leader.process,
            partition_counts=self.counts,
            end_offsets=dict.fromkeys(wanted, self.end) if self.ends_known else None,
            now_ms=self.now_ms,
            promised=promised,
            record_bytes_max=UNLIMITED,
        )

    def _adopt(self, thread: Thread, answer: MemberAssignment, *, leads: bool) -> None:
        process = self.processes[thread.process]
        adopted = process.adopted[thread] = read_assignment(
            answer.partitions, answer.user_data, self.topology, thread.process, dialect=self.dialect, leads=leads
        )
        stateful = {number for number, shape in enumerate(self.topology.subtopologies) if shape.stateful}
        process.positions.update({task: self.end for task in adopted.active if task.subtopology in stateful})
        for task in _copies(adopted):
            process.positions.setdefault(task, 0)
