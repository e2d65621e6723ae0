"""A coordinator of one streams group in memory, by Kafka 4.3.1's rules (``CurrentAssignmentBuilder``).

The target assignment is random, so tasks move much more than under Kafka's sticky assignor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from kstreams_assign.engine.streams_errors import FENCED_MEMBER_EPOCH, NOT_COORDINATOR, UNKNOWN_MEMBER_ID
from kstreams_assign.engine.streams_events import NO_TASKS, StreamsTasks, tasks_by_role
from kstreams_assign.model import TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import SHUTDOWN_APPLICATION, GroupStatus
from kstreams_assign.wire.streams_structs import task_ids

INTERVAL_MS = 1_000


@dataclass
class Member:
    """A member as the coordinator knows it. ``waits``: tasks of its target are not free yet."""

    process: str
    epoch: int = 0
    previous: int = 0
    assigned: StreamsTasks = NO_TASKS
    pending: StreamsTasks = NO_TASKS
    seen_ms: int = 0
    waits: bool = False


def answer(code: int, epoch: int = 0) -> StreamsHeartbeatResponse:
    return StreamsHeartbeatResponse(0, code, "refused" if code else None, "", epoch, INTERVAL_MS, 0, 0)


def without(left: StreamsTasks, right: StreamsTasks) -> StreamsTasks:
    return StreamsTasks(left.active - right.active, left.standby - right.standby, left.warmup - right.warmup)


def common(left: StreamsTasks, right: StreamsTasks) -> StreamsTasks:
    return without(left, without(left, right))


class Coordinator:
    """``heartbeat`` is the RPC. ``moved`` makes it answer that it is another's."""

    def __init__(self, tasks: list[TaskId], standbys: int, rng: Random) -> None:
        self.tasks, self.standbys, self.rng = tasks, standbys, rng
        self.members: dict[str, Member] = {}
        self.targets: dict[str, StreamsTasks] = {}
        self.epoch = 0
        self.shutdown = False
        self.moved = False

    def heartbeat(self, request: StreamsHeartbeatRequest, now_ms: int) -> StreamsHeartbeatResponse:
        if self.moved:
            return answer(NOT_COORDINATOR)
        name, epoch = request.member_id, request.member_epoch
        if epoch < 0:
            return answer(0, epoch) if self.remove(name) else answer(UNKNOWN_MEMBER_ID)
        lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        assert len({each is None for each in lists}) == 1, "all lists or none"
        owned = None if request.active_tasks is None else tasks_by_role(*(each or () for each in lists))
        if epoch == 0:
            assert owned == NO_TASKS
            assert request.topology is not None
            assert request.process_id is not None
            assert request.rebalance_timeout_ms > 0
            if name not in self.members:
                self.members[name] = Member(request.process_id)
                self.rebalance()
        else:
            assert request.topology is None
            if (member := self.members.get(name)) is None:
                return answer(UNKNOWN_MEMBER_ID)
            is_repeat = epoch == member.previous and owned is not None and without(owned, member.assigned) == NO_TASKS
            if epoch != member.epoch and not is_repeat:
                return answer(FENCED_MEMBER_EPOCH)
        self.shutdown = self.shutdown or request.shutdown_application
        member = self.members[name]
        before, member.seen_ms = member.assigned, now_ms
        self.reconcile(name, owned)
        status = (GroupStatus(SHUTDOWN_APPLICATION, "asked for"),) if self.shutdown else ()
        reply = replace(answer(0, member.epoch), member_id=name, status=status)
        if epoch != 0 and member.assigned == before:
            return reply
        active, standby, warmup = map(task_ids, (member.assigned.active, member.assigned.standby, frozenset()))
        return replace(reply, active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)

    def remove(self, name: str) -> bool:
        if self.members.pop(name, None) is None:
            return False
        self.rebalance()
        return True

    def rebalance(self) -> None:
        """Assign each task to a random member, evenly, and its standbys to others."""
        self.epoch += 1
        names = sorted(self.members)
        tasks = self.rng.sample(self.tasks, len(self.tasks))
        if not names:
            self.targets = {}
            return
        self.rng.shuffle(names)
        active: dict[str, set[TaskId]] = {name: set() for name in names}
        standby: dict[str, set[TaskId]] = {name: set() for name in names}
        for at, task in enumerate(tasks):
            active[names[at % len(names)]].add(task)
            others = [name for name in names if task not in active[name]]
            for name in self.rng.sample(others, min(self.standbys, len(others))):
                standby[name].add(task)
        self.targets = {name: StreamsTasks(frozenset(active[name]), frozenset(standby[name])) for name in names}

    def reconcile(self, name: str, owned: StreamsTasks | None) -> None:
        member = self.members[name]
        epoch = member.epoch
        if member.pending != NO_TASKS:
            if owned is None or common(owned, member.pending) != NO_TASKS:
                return
            epoch += 1
        elif member.epoch == self.epoch and not member.waits:
            return
        target = self.targets[name]
        kept = common(member.assigned, target)
        pending = without(member.assigned, kept)
        busy, mine = self.active_elsewhere(name), member.assigned.with_those_of(member.pending)
        if epoch != member.epoch:
            mine = member.assigned
        fresh = without(target, kept)
        free = StreamsTasks(fresh.active - busy - mine.standby, fresh.standby - mine.active)
        member.waits = free != fresh
        if pending != NO_TASKS and (owned is None or common(owned, pending) != NO_TASKS):
            member.assigned, member.pending = kept, pending
            new_epoch = epoch
        else:
            member.assigned, member.pending = kept.with_those_of(free), NO_TASKS
            new_epoch = self.epoch
        if new_epoch != member.epoch:
            member.previous, member.epoch = member.epoch, new_epoch

    def active_elsewhere(self, name: str) -> frozenset[TaskId]:
        others = (member for other, member in self.members.items() if other != name)
        return frozenset().union(*(member.assigned.active | member.pending.active for member in others))

    @property
    def is_stable(self) -> bool:
        return all(
            member.epoch == self.epoch and member.assigned == self.targets[name] and member.pending == NO_TASKS
            for name, member in self.members.items()
        )
