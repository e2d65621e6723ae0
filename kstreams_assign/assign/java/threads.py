"""Distribute one process's tasks over its threads (Kafka: ``StreamsPartitionAssignor.assignTasksToThreads``).

Stateful tasks return to the thread that had them as far as that leaves the threads even; the rest is dealt in turn.
Where Java's result follows the layout of its collections, so does this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from kstreams_assign.assign.java.hash_table import spread, walk_order
from kstreams_assign.assign.java.heap import JavaPriorityQueue
from kstreams_assign.assign.java_order import sorted_tasks, task_hash, task_order, text_order
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId

Dealt = dict[str, list[TaskId]]


@dataclass(frozen=True, slots=True)
class ThreadTasks:
    """What one consumer gets, in Java's order."""

    stateful_active: list[TaskId] = field(default_factory=list)
    standby: list[TaskId] = field(default_factory=list)
    stateless_active: list[TaskId] = field(default_factory=list)

    @property
    def active(self) -> list[TaskId]:
        return self.stateful_active + self.stateless_active


def distribute(
    stateful_active: Collection[TaskId],
    standby: Collection[TaskId],
    stateless_active: Collection[TaskId],
    consumers: Iterable[str],
    previous: Mapping[str, Sequence[TaskId]],
) -> dict[str, ThreadTasks]:
    """Distribute a process's tasks (warm-ups count as standbys) over its consumers, at least one.

    ``previous`` has per consumer the stateful tasks it reported, most caught up first (``lags.sort_by_lag``).
    """
    names = sorted(consumers, key=text_order)
    if len(names) == 1:
        mine = previous.get(names[0], ())
        return {
            names[0]: ThreadTasks(_alone(stateful_active, mine), _alone(standby, mine), sorted_tasks(stateless_active))
        }
    load = dict.fromkeys(names, 0)
    # Java holds active tasks in a hash set, standbys in a sorted one; both become the array of a heap
    stateful = _deal(_in_hash_order(stateful_active), names, previous, load)
    copies = _deal(sorted_tasks(standby), names, previous, load)
    stateless = _deal(_in_hash_order(stateless_active), names, {}, load)
    return {name: ThreadTasks(stateful[name], copies[name], stateless[name]) for name in names}


def _alone(tasks: Collection[TaskId], previous: Sequence[TaskId]) -> list[TaskId]:
    """Return what a single consumer gets: what it had, in that order, then the heap as it empties."""
    if not tasks:
        return []
    left = set(tasks)
    mine = [task for task in dict.fromkeys(previous) if task in left]
    return mine + sorted_tasks(left.difference(mine))


def _in_hash_order(tasks: Collection[TaskId]) -> list[TaskId]:
    in_order = sorted_tasks(tasks)
    return walk_order(in_order, [spread(task_hash(task)) for task in in_order], task_order)


def _deal(
    tasks: Sequence[TaskId], consumers: Sequence[str], previous: Mapping[str, Sequence[TaskId]], load: dict[str, int]
) -> Dealt:
    """Deal one kind of tasks; ``load`` is what the consumers have already and is updated."""
    dealt: Dealt = {consumer: [] for consumer in consumers}
    least = (len(tasks) + sum(load.values())) // len(consumers)
    room = {consumer: least - load[consumer] for consumer in consumers}
    left = JavaPriorityQueue(task_order, tasks)
    if tasks:
        skipped = _give_back(left, dealt, previous, room)
        _fill_up(left, dealt, room)
        _hand_out_rest(left, dealt, room, skipped)
    for consumer in consumers:
        load[consumer] += len(dealt[consumer])
    return dealt


def _give_back(
    left: JavaPriorityQueue[TaskId], dealt: Dealt, previous: Mapping[str, Sequence[TaskId]], room: Mapping[str, int]
) -> dict[TaskId, str]:
    """Return tasks to previous owners, up to the even share; return those that did not fit, with their last owner."""
    skipped = {}
    unassigned = set(left)
    for consumer, mine in dealt.items():
        for task in previous.get(consumer, ()):
            if task not in unassigned:
                continue
            if len(mine) < room[consumer]:
                mine.append(task)
                unassigned.discard(task)
                left.remove(task)
            else:
                skipped[task] = consumer
    return skipped


def _fill_up(left: JavaPriorityQueue[TaskId], dealt: Dealt, room: Mapping[str, int]) -> None:
    """Deal in turn until every consumer has its even share."""
    hungry = deque(consumer for consumer, mine in dealt.items() if len(mine) < room[consumer])
    while hungry:
        consumer = hungry.popleft()
        dealt[consumer].append(left.poll())
        if len(dealt[consumer]) < room[consumer]:
            hungry.append(consumer)


def _hand_out_rest(
    left: JavaPriorityQueue[TaskId], dealt: Dealt, room: Mapping[str, int], skipped: Mapping[TaskId, str]
) -> None:
    """Give one more task to consumers at the even share: previous owners first, then the heap's array in order."""
    fewest = [consumer for consumer, mine in dealt.items() if len(mine) == room[consumer]]
    for task in sorted_tasks(skipped):
        if skipped[task] in fewest and task in set(left):
            dealt[skipped[task]].append(task)
            left.remove(task)
            fewest.remove(skipped[task])
    for task, consumer in zip(left, fewest, strict=False):
        dealt[consumer].append(task)
