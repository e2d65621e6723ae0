"""Whether a rebalance would gain anything now: the answer of KIP-441's draft, step by step as written there.

Rank the instances for every stateful task, propose a balanced assignment, list the movements from the present owners
to the proposed ones; those whose destination has rank 0 are available. One available movement is reason enough.

The draft leaves ``proposeBalancedAssignment`` open. Here it is the fewest movements that reach balance, and among
those the warmest first. So a balanced group is left alone (property 5), and if any proposal with the fewest movements
has an available one, so has this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign.balance import Owners
from kstreams_assign.assign.java.lag_table import LagTable
from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.java_order import task_order
from kstreams_assign.assign.lags import UNBOUNDED_LAG, rank
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.assign.values import AssignConfig, Cluster
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId, process_order

RankedCandidates = Mapping[TaskId, Mapping[int, Sequence[UUID]]]
"""Stateful task -> rank -> the processes of that rank."""

Copy = tuple[TaskId, UUID]
"""A task on a process."""

NOTHING_BEGUN: frozenset[Copy] = frozenset()


class Movement(NamedTuple):
    """A task's change of owner. ``source`` is None if no process of the cluster runs the task."""

    task: TaskId
    source: UUID | None
    destination: UUID


def should_rebalance(cluster: Cluster, owners: Owners, config: AssignConfig, balance_factor: int = 1) -> bool:
    """Return whether some movement towards balance can be made at once.

    ``owners``: the process that runs each stateful task now. ``balance_factor``: how many tasks more than another
    process may run, at least 1. Raises ``ConfigError`` for a smaller value, and for a client without a lag for a
    stateful task.
    """
    return bool(available_movements(cluster, owners, config, balance_factor))


def available_movements(
    cluster: Cluster, owners: Owners, config: AssignConfig, balance_factor: int = 1
) -> list[Movement]:
    """Return the movements of the proposal whose destination has rank 0, in task order."""
    candidates = rank_candidates(cluster, config)
    present = {task: owner for task, owner in owners.items() if task in candidates and owner in cluster.capacities}
    proposed = propose_balanced(candidates, cluster.capacities, present, balance_factor)
    return [movement for movement in movements(present, proposed) if is_available(movement, candidates)]


def rank_candidates(cluster: Cluster, config: AssignConfig) -> dict[TaskId, dict[int, list[UUID]]]:
    """Return all processes by rank, for every stateful task, tasks in order (KIP-441, most-caught-up)."""
    table = PlanTable(cluster)
    lags = LagTable(table, config.acceptable_recovery_lag)
    processes = [client.process_id for client in table.clients]
    candidates: dict[TaskId, dict[int, list[UUID]]] = {}
    for number, task in enumerate(table.tasks):
        by_rank = candidates[task] = {}
        reported = lags.reported_lags[number]
        if len(reported) < len(processes):
            rest = [process for client, process in enumerate(processes) if client not in reported]
            by_rank[known_rank(lags.unreported_lag[number], config)] = rest
        for client, lag in reported.items():
            by_rank.setdefault(known_rank(lag, config), []).append(processes[client])
    return candidates


def known_rank(lag: int, config: AssignConfig) -> int:
    """Return the rank of a lag. An unknown lag ranks last: the KIP's proxy for a missing number."""
    known = UNBOUNDED_LAG if lag == UNKNOWN_OFFSET_SUM else lag
    return rank(known, config.acceptable_recovery_lag)


def movements(before: Owners, after: Owners) -> list[Movement]:
    """Return every task whose owner differs, in task order."""
    changed = sorted((task for task, owner in after.items() if before.get(task) != owner), key=task_order)
    return [Movement(task, before.get(task), after[task]) for task in changed]


def is_available(movement: Movement, candidates: RankedCandidates) -> bool:
    return movement.destination in candidates[movement.task].get(0, ())


def propose_balanced(
    candidates: RankedCandidates,
    capacities: Mapping[UUID, int],
    owners: Owners,
    balance_factor: int = 1,
    begun: Collection[Copy] = NOTHING_BEGUN,
) -> dict[TaskId, UUID]:
    """Return a balanced owner for every task of ``candidates``, with the fewest movements away from ``owners``.

    Tasks without an owner go to the lowest rank that has room. Movements are chosen by rank of the destination; those
    that have ``begun`` come right after the available ones.
    """
    if balance_factor < 1:
        raise ConfigError(f"balance_factor is {balance_factor!r}; it must be a whole number of at least 1")
    proposed = {task: owners[task] for task in candidates if owners.get(task) in capacities}
    loads = Loads(len(candidates), capacities, Counter(proposed.values()))
    for task, by_rank in candidates.items():
        if task not in proposed:
            proposed[task] = loads.place(by_rank)
    if loads.imbalance() <= balance_factor:
        return proposed
    for task, destination in _pairs(proposed, loads, candidates, begun):
        if loads.may_move(proposed[task], destination):
            loads.move(proposed[task], destination)
            proposed[task] = destination
            if loads.imbalance() <= balance_factor:
                break
    return proposed


def _pairs(proposed: Owners, loads: Loads, candidates: RankedCandidates, begun: Collection[Copy]) -> list[Copy]:
    """Return every task that may leave with every process that may take it, warmest first.

    One pass is enough: whether a process may give or take only ever changes from yes to no.
    """
    takers = {process: number for number, process in enumerate(sorted(loads.takers(), key=process_order))}
    keyed = [
        ((rank_ > 0 and (task, process) not in begun, rank_, number, takers[process]), (task, process))
        for number, (task, by_rank) in enumerate(candidates.items())
        if loads.may_give(proposed[task])
        for rank_, processes in by_rank.items()
        for process in processes
        if process in takers
    ]
    return [copy for _, copy in sorted(keyed)]


class Loads:
    """The number of tasks of each process compared with its even share (by threads, rounded down and up).

    ``over`` and ``under`` count the tasks above and below the shares of all processes. ``spare`` are the tasks left
    for shares to be rounded up, beside shares that are rounded up already.
    """

    def __init__(self, tasks: int, capacities: Mapping[UUID, int], count: Counter[UUID]) -> None:
        self.count, self.capacities = count, capacities
        self.share = dict(zip(capacities, even_shares(tasks, list(capacities.values())), strict=True))
        self.over = sum(max(0, count[process] - high) for process, (_, high) in self.share.items())
        self.under = sum(max(0, low - count[process]) for process, (low, _) in self.share.items())
        self.spare = tasks - sum(low + (count[process] > low < high) for process, (low, high) in self.share.items())

    def imbalance(self) -> int:
        """Return, for equal capacities, the most tasks of a process less the fewest (KIP-441, "instance balance")."""
        over = max((self.count[process] - high for process, (_, high) in self.share.items()), default=0)
        under = max((low - self.count[process] for process, (low, _) in self.share.items()), default=0)
        return over + under + any(high > low for low, high in self.share.values())

    def place(self, by_rank: Mapping[int, Sequence[UUID]]) -> UUID:
        """Add a task to the least loaded process of the lowest rank that has room, and return the process."""
        room = [
            (rank_, self.count[process] / self.capacities[process], process_order(process), process)
            for rank_, processes in by_rank.items()
            for process in processes
            if self._has_room(process)
        ]
        process = min(room)[-1]
        is_under = self.count[process] < self.share[process][0]
        self.under -= is_under
        self.spare -= not is_under
        self.count[process] += 1
        return process

    def _has_room(self, process: UUID) -> bool:
        low, high = self.share[process]
        return self.count[process] < (high if self.spare > 0 else low)

    def may_give(self, process: UUID) -> bool:
        return self.count[process] > self.share[process][0]

    def takers(self) -> list[UUID]:
        return [process for process, (_, high) in self.share.items() if self.count[process] < high]

    def may_move(self, source: UUID, destination: UUID) -> bool:
        """Return whether the move is one of the fewest.

        It helps both processes, or it helps one and no other process needs help.
        """
        low, high = self.share[source]
        is_over, may_give = self.count[source] > high, self.count[source] > low
        low, high = self.share[destination]
        is_under, may_take = self.count[destination] < low, self.count[destination] < high
        return (
            (is_over and is_under)
            or (is_over and may_take and self.over > self.under)
            or (is_under and may_give and self.under > self.over)
        )

    def move(self, source: UUID, destination: UUID) -> None:
        self.over -= self.count[source] > self.share[source][1]
        self.under -= self.count[destination] < self.share[destination][0]
        self.count[source] -= 1
        self.count[destination] += 1
