"""A streams group in simulated time: processes with the real machine join a coordinator, over a topic with delays."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from kstreams_assign.assign import StreamsMember
from kstreams_assign.engine.joiners import Joiners
from kstreams_assign.engine.warm_join import (
    AnnounceJoin,
    Event,
    GroupSeen,
    JoinEnded,
    JoinGroup,
    JoinHeard,
    LagsMeasured,
    LookAtGroup,
    WarmJoin,
    WarmUp,
)
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import Newcomer, Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_join import outlook
from kstreams_assign.wire.join_messages import JoinAnnounced
from tests.assign.streams_coordinator import Coordinator
from tests.observe.random_streams_groups import described, random_uuid

INTERVAL_MS, TURN_MS, HEARTBEAT_MS = 1_000, 50, 200


class Group:
    """The coordinator with its assignment interval, and the topic. ``delay_ms``: until a record is read, at most."""

    def __init__(self, random: Random, coordinator: Coordinator, delay_ms: int = 100) -> None:
        self.random, self.coordinator, self.delay_ms = random, coordinator, delay_ms
        self.now_ms = 1_000_000
        self.assigned_ms = 0
        self.is_assigned = True
        self.records: list[tuple[int, JoinAnnounced]] = []
        self.processes: list[Process] = []

    def add(self, begins_ms: int, task_ms: int) -> Process:
        """Add a process that begins after a while, and needs so long to restore a task."""
        process = Process(self, self.now_ms + begins_ms, task_ms)
        self.processes.append(process)
        return process

    def join(self, newcomer: Newcomer) -> None:
        is_served = self.now_ms >= self.assigned_ms + INTERVAL_MS
        self.coordinator.join(StreamsMember(newcomer.member_id, newcomer.process_id), is_served=is_served)
        self.is_assigned = is_served
        if is_served:
            self.assigned_ms = self.now_ms

    def run(self, until_ms: int) -> None:
        """Play until every process has joined. Raises ``AssertionError`` if one has not by then."""
        end_ms = self.now_ms + until_ms
        while not (self.is_assigned and all(each.joined_ms or each.is_dead for each in self.processes)):
            assert self.now_ms < end_ms, "a process waits without limit"
            self.now_ms += 10
            due = self.now_ms >= self.assigned_ms + INTERVAL_MS
            if not self.is_assigned and due and self.now_ms % HEARTBEAT_MS == 0:
                self.coordinator.assign()
                self.is_assigned, self.assigned_ms = True, self.now_ms
            for process in self.processes:
                process.turn()


class Process:
    """One process: its machine, and state that comes at its pace."""

    def __init__(self, group: Group, begins_ms: int, task_ms: int) -> None:
        random = group.random
        ids = (str(random_uuid(random)) for _ in range(2))
        self.newcomer = Newcomer(*ids)
        self.group, self.begins_ms, self.task_ms = group, begins_ms, task_ms
        self.machine = WarmJoin(Joiners(self.newcomer, begins_ms), 0, 3_600_000, 0)
        self.turns_ms = begins_ms + random.randrange(TURN_MS)
        self.has_begun = self.is_dead = self.is_deaf = False
        self.warming: frozenset[TaskId] = frozenset()
        self.restored: dict[TaskId, int] = {}
        self.reads: list[tuple[int, int]] = []
        self.read = 0
        self.warm_at_join: frozenset[TaskId] = frozenset()
        self.join: JoinGroup | None = None
        self.joined_ms = 0

    @property
    def given(self) -> frozenset[TaskId]:
        return self.group.coordinator.members[self.newcomer.member_id].active

    @property
    def given_with_state(self) -> frozenset[TaskId]:
        subs = self.group.coordinator.subtopologies
        return frozenset(task for task in self.given if subs[task.subtopology].is_stateful)

    def turn(self) -> None:
        now_ms = self.group.now_ms
        if self.is_dead or self.joined_ms or now_ms < self.turns_ms:
            return
        self.turns_ms = now_ms + TURN_MS
        if not self.has_begun:
            self.has_begun, self.read = True, len(self.group.records)
            self.handle(Started())
        while self.read < len(self.group.records) and self.group.records[self.read][0] <= now_ms:
            if not self.is_deaf:
                self.handle(JoinHeard(self.group.records[self.read][1]))
            self.read += 1
        self.handle(LagsMeasured(self.lags()))

    def lags(self) -> Mapping[TaskId, int]:
        """The tasks are restored one after the other."""
        left_ms = TURN_MS
        for task in sorted(self.warming):
            took_ms = min(left_ms, self.task_ms - self.restored.get(task, 0))
            self.restored[task] = self.restored.get(task, 0) + took_ms
            left_ms -= took_ms
        return {task: self.task_ms - self.restored[task] for task in self.warming}

    def handle(self, event: Event) -> None:
        for effect in self.machine.handle(event, self.group.now_ms):
            match effect:
                case LookAtGroup(joining, is_open):
                    seen = self.look(joining, is_open)
                    members = self.group.coordinator.members
                    assigned = frozenset(name for name in members if self.group.is_assigned or members[name].active)
                    self.handle(GroupSeen(seen, {}, frozenset(members), assigned))
                case WarmUp(tasks):
                    self.warming = tasks
                case AnnounceJoin(message):
                    delay_ms = self.group.random.randint(0, self.group.delay_ms)
                    last_ms = self.group.records[-1][0] if self.group.records else 0
                    self.group.records.append((max(last_ms, self.group.now_ms + delay_ms), message))
                case JoinGroup():
                    self.join, self.joined_ms = effect, self.group.now_ms
                    lags = self.lags()
                    self.warm_at_join = frozenset(task for task, lag in lags.items() if lag == 0)
                    self.group.join(self.newcomer)
                    self.handle(JoinEnded(is_member=True))

    def look(self, joining: tuple[Newcomer, ...], is_open: bool) -> Outlook:
        snapshot = described(self.group.coordinator, is_readable=True)
        return outlook(snapshot, self.newcomer, joining, is_interval_open=is_open)[0]
