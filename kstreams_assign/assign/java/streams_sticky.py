"""The assignor that a broker runs for a streams group (KIP-1071), as Kafka 4.3.1 decides.

Kafka: ``StickyTaskAssignor`` and ``ProcessState`` in ``org.apache.kafka.coordinator.group.streams.assignor``. Tasks
stay with the member that has them in the present *target* assignment, as far as even shares allow; then members that
have the task as a standby get it; then the least loaded. Lags do not count, and no warm-ups are made. Ties are decided
by the order of Java's hash tables of member ids and process ids, so the order of the members is part of the input.
What must not live here: when the broker computes a target, and for which members (``assign.streams_group``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush

from kstreams_assign.assign.java.hash_table import SMALLEST_TABLE, first_table_size, spread, walk_order
from kstreams_assign.assign.java.heap import Rider, poll
from kstreams_assign.assign.java_order import text_hash, text_order
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member with its target assignment, which is empty at its first join. Warm-up tasks have no effect."""

    member_id: str
    process_id: str
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class SubtopologyTasks:
    """The number of tasks of a subtopology; stateful if it has changelog topics."""

    tasks: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """What the broker wants a member to have."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()


def assign_streams_tasks(
    members: Sequence[StreamsMember], subtopologies: Mapping[int, SubtopologyTasks], num_standby_replicas: int
) -> dict[str, TargetTasks]:
    """Return the target assignment of each member id.

    ``members`` are in the order in which the broker puts them into its hash table
    (``TargetAssignmentBuilder.build``). Raises ``ConfigError`` if there are tasks but no member.
    """
    table = _Table(members, subtopologies, num_standby_replicas)
    _assign_active(table, [task for task, _ in table.tasks])
    if num_standby_replicas > 0:
        _assign_standby(table, [task for task, is_stateful in table.tasks if is_stateful], num_standby_replicas)
    return {
        member.member_id: TargetTasks(
            frozenset(table.active[member.member_id]), frozenset(table.standby[member.member_id])
        )
        for member in members
    }


def hash_order(texts: Sequence[str], smallest: int = SMALLEST_TABLE) -> list[str]:
    """Return the order in which a ``HashMap`` iterates over strings that were put into it in this order."""
    return walk_order(texts, [spread(text_hash(text)) for text in texts], text_order, smallest=smallest)


class _Process:
    """One process: its members' task counts, and a queue of its members by load."""

    def __init__(self, member_ids: Sequence[str]) -> None:
        self.member_ids = hash_order(member_ids)
        self.counts = dict.fromkeys(member_ids, 0)
        self.tasks: set[TaskId] = set()
        self.task_count = 0
        self._queue: list[tuple[int, Rider]] | None = None

    @property
    def load(self) -> float:
        return self.task_count / len(self.counts)

    def take(self, member_id: str, task: TaskId) -> int:
        """Give a task to this member and return its new number of tasks. The queue is built again afterwards."""
        self._queue = None
        return self._count(member_id, task)

    def take_evenly(self, task: TaskId) -> tuple[str, int]:
        """Give a task to the least loaded member; return the member and its new number of tasks."""
        if len(self.counts) == 1:
            return self.member_ids[0], self._count(self.member_ids[0], task)
        if self._queue is None:
            self._queue = []
            for index, member_id in enumerate(self.member_ids):
                heappush(self._queue, (self.counts[member_id], Rider(index)))
        rider: Rider = poll(self._queue)[1]
        member_id = self.member_ids[rider.index]
        count = self._count(member_id, task)
        heappush(self._queue, (count, rider))
        return member_id, count

    def _count(self, member_id: str, task: TaskId) -> int:
        self.tasks.add(task)
        self.task_count += 1
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Quota:
    """An even share of tasks per member. A member that reaches it leaves the rest to the others."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = _share(tasks, members)

    def note(self, count: int) -> None:
        """Take a member's new number of tasks into account."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = _share(self._tasks, self._members)


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


@dataclass(slots=True)
class _Table:
    """The assignment under way."""

    members: Sequence[StreamsMember]
    subtopologies: Mapping[int, SubtopologyTasks]
    num_standby_replicas: int
    tasks: list[tuple[TaskId, bool]] = field(init=False)
    processes: list[_Process] = field(init=False)
    process_of: dict[str, _Process] = field(init=False)
    owners: dict[TaskId, str] = field(init=False)
    replicas: dict[TaskId, list[str]] = field(init=False)
    active_quota: _Quota = field(init=False)
    quota: _Quota = field(init=False)
    active: dict[str, set[TaskId]] = field(init=False)
    standby: dict[str, set[TaskId]] = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = [
            (TaskId(number, partition), subtopology.is_stateful)
            for number, subtopology in self.subtopologies.items()
            for partition in range(subtopology.tasks)
        ]
        stateful = sum(is_stateful for _, is_stateful in self.tasks)
        self.active_quota = _Quota(len(self.tasks), len(self.members))
        self.quota = _Quota(len(self.tasks) + stateful * self.num_standby_replicas, len(self.members))
        self.active = {member.member_id: set() for member in self.members}
        self.standby = {member.member_id: set() for member in self.members}
        self._read_members()

    def _read_members(self) -> None:
        by_id = {member.member_id: member for member in self.members}
        ordered = [by_id[member_id] for member_id in hash_order(list(by_id))]
        member_ids: dict[str, list[str]] = {}
        self.owners, self.replicas = {}, {}
        for member in ordered:
            member_ids.setdefault(member.process_id, []).append(member.member_id)
            self.owners.update(dict.fromkeys(member.active, member.member_id))
            for task in member.standby:
                self.replicas.setdefault(task, []).append(member.member_id)
        processes = {process_id: _Process(ids) for process_id, ids in member_ids.items()}
        self.process_of = {member.member_id: processes[member.process_id] for member in ordered}
        order = hash_order(list(processes), first_table_size(len(self.members)))
        self.processes = [processes[process_id] for process_id in order]

    def give_active(self, member_id: str, count: int, task: TaskId) -> None:
        self.active[member_id].add(task)
        self.active_quota.note(count)
        self.quota.note(count)

    def give_standby(self, member_id: str, count: int, task: TaskId) -> None:
        self.standby[member_id].add(task)
        self.quota.note(count)

    def least_loaded(self, member_ids: Sequence[str], task: TaskId | None) -> str | None:
        """Return the former holder to prefer: a later one has to be less loaded both as process and as member.

        As in Kafka, only the first holder's process is asked at the end whether it has the task already.
        """
        if not member_ids:
            return None
        first = self.process_of[member_ids[0]]
        chosen, load, count = member_ids[0], first.load, first.counts[member_ids[0]]
        for member_id in member_ids[1:]:
            process = self.process_of[member_id]
            is_free = task is None or task not in process.tasks
            if is_free and process.load < load and process.counts[member_id] < count:
                chosen, load, count = member_id, process.load, process.counts[member_id]
        return None if task is not None and task in first.tasks else chosen


def _by_partition(task: TaskId) -> tuple[int, str]:
    """Subtopology ids are strings to the broker: "10" sorts before "2"."""
    return task.partition, str(task.subtopology)


def _by_subtopology(task: TaskId) -> tuple[str, int]:
    return str(task.subtopology), task.partition


def _assign_active(table: _Table, tasks: Iterable[TaskId]) -> None:
    left = [task for task in sorted(tasks, key=_by_partition) if not _keep_active(table, table.owners.get(task), task)]
    orphaned = [
        task for task in left if not _keep_active(table, table.least_loaded(table.replicas.get(task, ()), None), task)
    ]
    queue = _by_load(table)
    for task in sorted(orphaned, key=_by_subtopology):
        if not queue:
            raise ConfigError(f"task {task} cannot be assigned: the streams group has no members")
        rider: Rider = poll(queue)[1]
        process = table.processes[rider.index]
        table.give_active(*process.take_evenly(task), task)
        heappush(queue, (process.load, rider))


def _keep_active(table: _Table, member_id: str | None, task: TaskId) -> bool:
    """Give the task to a former holder that has room, and return whether it has."""
    if member_id is None or table.process_of[member_id].counts[member_id] >= table.active_quota.per_member:
        return False
    table.give_active(member_id, table.process_of[member_id].take(member_id, task), task)
    return True


def _by_load(table: _Table) -> list[tuple[float, Rider]]:
    queue: list[tuple[float, Rider]] = []
    for index, process in enumerate(table.processes):
        heappush(queue, (process.load, Rider(index)))
    return queue


def _assign_standby(table: _Table, tasks: Iterable[TaskId], replicas: int) -> None:
    missing = []
    for task in sorted(tasks, key=_by_partition, reverse=True):
        kept = 0
        while kept < replicas and _keep_standby(table, task):
            kept += 1
        if kept < replicas:
            missing.append((task, replicas - kept))
    queue = _by_load(table)
    for task, count in sorted(missing, key=lambda each: _by_subtopology(each[0]), reverse=True):
        for _ in range(count):
            if not _place_standby(table, queue, task):
                break


def _keep_standby(table: _Table, task: TaskId) -> bool:
    """Leave a standby with the former owner, else with a former standby, if there is room."""
    owner = table.owners.get(task)
    if owner is not None and task not in table.process_of[owner].tasks and _has_room(table, owner):
        member_id: str | None = owner
    else:
        member_id = table.least_loaded(table.replicas.get(task, ()), task)
    if member_id is None or not _has_room(table, member_id):
        return False
    table.give_standby(member_id, table.process_of[member_id].take(member_id, task), task)
    return True


def _has_room(table: _Table, member_id: str) -> bool:
    return table.process_of[member_id].counts[member_id] < table.quota.per_member


def _place_standby(table: _Table, queue: list[tuple[float, Rider]], task: TaskId) -> bool:
    """Give a standby to the least loaded process without a replica; return whether there is one."""
    polled: list[Rider] = []
    is_placed = False
    while queue and not is_placed:
        polled.append(poll(queue)[1])
        process = table.processes[polled[-1].index]
        if task not in process.tasks:
            table.give_standby(*process.take_evenly(task), task)
            is_placed = True
    for rider in reversed(polled):
        heappush(queue, (table.processes[rider.index].load, rider))
    return is_placed
