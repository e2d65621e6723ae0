"""The rack-aware steps of Kafka's assignors (KIP-925): for actives once laid out, for standbys once placed.

Kafka: ``RackAwareTaskAssignor.optimizeActiveTasks`` and ``optimizeStandbyTasks``. Every process keeps its number of
tasks of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from kstreams_assign.assign.java.places import FlowProblem
from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.java.rack_flow import balance_subtopology, min_traffic
from kstreams_assign.assign.java_order import text_order
from kstreams_assign.assign.racks import STATELESS_COSTS, Costs, RackCosts
from kstreams_assign.assign.values import AssignConfig, Cluster
from kstreams_assign.model import TaskId

STANDBY_ROUNDS_MAX = 4
"""Kafka: ``STANDBY_OPTIMIZER_MAX_ITERATION``."""

MayMoveStandby = Callable[[int, int, int], bool]
"""(task, source, destination) -> whether the task's standby may go from one client to the other."""


class RackAware:
    """Moves tasks on a table so that traffic between racks costs less. ``costs`` apply to stateful tasks."""

    def __init__(self, table: PlanTable, cluster: Cluster, config: AssignConfig, costs: Costs) -> None:
        self.table, self.cluster, self.costs = table, cluster, costs
        self.solve = min_traffic if config.rack_aware_assignment_strategy == "min_traffic" else balance_subtopology

    def actives(self) -> None:
        """Assign all stateful tasks again; no standby may be placed yet."""
        for task, owner in enumerate(self._solved(self.table.tasks, self.table.owner, self.costs)):
            if owner != self.table.owner[task]:
                self.table.take_active(task)
                self.table.give_active(task, owner)

    def stateless(self) -> None:
        """Assign all stateless tasks again."""
        table = self.table
        for task, owner in enumerate(self._solved(table.stateless, table.stateless_owner, STATELESS_COSTS)):
            table.stateless_owner[task] = owner

    def standbys(self, may_move: MayMoveStandby) -> None:
        """Swap standbys between clients of different racks until nothing moves, or for Kafka's number of rounds."""
        table = self.table
        known = RackCosts(table.clients, self.costs.traffic)
        rows = known.rows(table.tasks, self.cluster.changelog_racks)
        held = [
            {task for task, holders in enumerate(table.holders) if client in holders and table.owner[task] != client}
            for client in range(len(table.clients))
        ]
        pairs = [
            (first, other)
            for first, other in combinations(range(len(held)), 2)
            if known.rack[first] != known.rack[other]
        ]
        for _ in range(STANDBY_ROUNDS_MAX):
            moved = False
            for pair in pairs:
                tasks, where = self._movable(held, pair, may_move)
                cost = [[rows[task][known.rack[client]] for client in pair] for task in tasks]
                for task, before, after in _swaps(tasks, where, cost, self.costs.away):
                    source, destination = pair[before], pair[after]
                    table.take_standby(task, source)
                    table.give_standby(task, destination)
                    held[source].remove(task)
                    held[destination].add(task)
                    moved = True
            if not moved:
                return

    def _movable(
        self, held: Sequence[set[int]], pair: tuple[int, int], may_move: MayMoveStandby
    ) -> tuple[list[int], list[int]]:
        """Return the standbys that may move between two clients, and the side on which each is.

        Both lists are empty if no standby may move.
        """
        holders = self.table.holders
        where = {
            task: side
            for side, (source, destination) in enumerate((pair, pair[::-1]))
            for task in held[source]
            if destination not in holders[task] and may_move(task, source, destination)
        }
        tasks = sorted(where)
        return tasks, [where[task] for task in tasks]

    def _solved(self, tasks: Sequence[TaskId], owners: Sequence[int], costs: Costs) -> list[int]:
        """Return the client of each task."""
        if not tasks:
            return []
        known = RackCosts(self.table.clients, costs.traffic)
        rows = known.rows(tasks, self.cluster.source_racks)
        order: Sequence[int] = range(len(tasks))
        if self.solve is balance_subtopology:  # by subtopology first; differs only with named topologies
            order = sorted(order, key=lambda task: subtopology_order(tasks[task]))
        groups = {
            each: number for number, each in enumerate(dict.fromkeys(subtopology_order(tasks[task]) for task in order))
        }
        solved = self.solve(
            FlowProblem(
                owner=[owners[task] for task in order],
                group=[groups[subtopology_order(tasks[task])] for task in order],
                rack=known.rack,
                cost=[rows[task] for task in order],
                away=costs.away,
            )
        )
        solved_owners = list(owners)
        for task, owner in zip(order, solved, strict=True):
            solved_owners[task] = owner
        return solved_owners


def subtopology_order(task: TaskId) -> tuple[int, bytes]:
    """Return the sort key of Kafka's ``Subtopology.compareTo``: number, then named topology."""
    return task.subtopology, b"" if task.topology is None else text_order(task.topology)


def _swaps(
    tasks: Sequence[int], where: Sequence[int], cost: Sequence[Sequence[int]], away: int
) -> list[tuple[int, int, int]]:
    """Return what two clients swap: the task, the side that has it, the side that gets it."""
    gifts = [
        [row[1 - side] - row[side] + away for row, at in zip(cost, where, strict=True) if at == side] for side in (0, 1)
    ]
    if not all(gifts) or sum(map(min, gifts)) >= 0:
        return []
    solved = min_traffic(FlowProblem(where, [0] * len(tasks), (0, 1), cost, away))
    return [moved for moved in zip(tasks, where, solved, strict=True) if moved[1] != moved[2]]
