"""Balance by load: what a task weighs, when a group counts as balanced, and which single move improves it.

Loads are what members report of their active tasks (``balance_by``): records a minute, or bytes on disk. The idea is
Cruise Control's: a group is left alone unless its processes differ by more than a threshold, so that nothing moves for
noise. Functions here judge; ``least_movement.by_load`` places tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.model import TaskId, process_order

Loads = Mapping[TaskId, int]
"""Task -> its load; all loads of one map are of the same unit."""

IMBALANCE_MAX = 0.2
"""No task moves between two processes whose levels differ by at most this part of the mean level."""

GAIN_MIN = 0.1
"""A process that takes a task stays below the level of the one that gives it by at least this part of the mean level.

So loads have to change by twice as much before the task moves back.
"""

IDLE_PARTS = 10
"""Each task weighs, beside its load, one such part of the mean load: an idle task costs something, too."""


def weigh(tasks: Sequence[TaskId], loads: Loads) -> list[int]:
    """Return the weight of each task, at least 1. A task without a load counts as a mean one."""
    known = [loads[task] for task in tasks if task in loads]
    mean = sum(known) // len(known) if known else 0
    idle = max(1, mean // IDLE_PARTS)
    return [loads.get(task, mean) + idle for task in tasks]


class Levels:
    """The level of each client: the weight of its active tasks by its threads. Clients and tasks are numbers."""

    def __init__(self, weights: Sequence[int], capacity: Sequence[int], owners: Sequence[int]) -> None:
        """Read the owner of each task; every task has one."""
        self.weights, self.capacity = weights, capacity
        self.sums = [0] * len(capacity)
        for weight, owner in zip(weights, owners, strict=True):
            self.sums[owner] += weight
        self.mean = sum(weights) / sum(capacity)

    def of(self, client: int, extra: int = 0) -> float:
        """Return the level of a client, with a weight that it would take or give in addition."""
        return (self.sums[client] + extra) / self.capacity[client]

    def room(self, source: int, goal: int) -> float:
        """Return the most that a task may weigh that moves from ``source`` to ``goal``; below 1: none may move."""
        if self.of(source) - self.of(goal) <= IMBALANCE_MAX * self.mean:
            return 0
        return (self.of(source) - GAIN_MIN * self.mean - self.of(goal)) * self.capacity[goal]

    def after(self, weight: int, source: int, goal: int) -> float:
        """Return the higher of the two levels once a task of this weight has moved."""
        return max(self.of(source, -weight), self.of(goal, weight))

    def move(self, task: int, source: int, goal: int) -> None:
        self.sums[source] -= self.weights[task]
        self.sums[goal] += self.weights[task]

    def may_improve(self, owners: Sequence[int]) -> bool:
        """Return whether any single task may move."""
        clients = range(len(self.capacity))
        lightest: dict[int, int] = {}
        for weight, owner in zip(self.weights, owners, strict=True):
            lightest[owner] = min(weight, lightest.get(owner, weight))
        lowest = {self.capacity[goal]: goal for goal in sorted(clients, key=self.of, reverse=True)}
        return any(
            weight <= self.room(source, goal)
            for source, weight in lightest.items()
            for goal in lowest.values()
            if goal != source
        )


def is_load_balanced(owners: Mapping[TaskId, UUID], capacities: Mapping[UUID, int], loads: Loads) -> bool:
    """Return whether the group is left alone: no task may move by the rules of this module.

    ``capacities`` must include the processes that run no task; tasks of other processes do not count.
    """
    tasks = sorted_tasks([task for task, process in owners.items() if process in capacities])
    processes = sorted(capacities, key=process_order)
    if not tasks:
        return True
    numbers = {process: number for number, process in enumerate(processes)}
    placed = [numbers[owners[task]] for task in tasks]
    levels = Levels(weigh(tasks, loads), [capacities[process] for process in processes], placed)
    return not levels.may_improve(placed)


def sum_loads(owners: Mapping[TaskId, UUID], processes: Collection[UUID], loads: Loads) -> dict[UUID, int]:
    """Return the load of each process; a task without a load adds nothing."""
    sums = dict.fromkeys(processes, 0)
    for task, process in owners.items():
        if process in sums:
            sums[process] += loads.get(task, 0)
    return sums
