"""LinkedIn's Cruise Control: a chain of goals by priority; each improves the assignment without undoing earlier ones.

Taken from KIP-441: the chain, moves that a goal proposes until it has no more, and the hook that asks earlier goals.
Its goals are about brokers; ours are: tasks run where their state is, tasks are even, subtopologies are spread. A move
that only the first goal refuses becomes a warm-up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Plan, is_caught_up
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.bootstrap import NEVER_MS, UNLIMITED, AsksWhenComplete
from kstreams_assign.sim.policies.policy import (
    Owners,
    Policy,
    always,
    arrange,
    assign_orphans,
    keep_owners,
    promote_standbys,
    with_standbys,
)


class Move(NamedTuple):
    task: TaskId
    to: UUID


class Goal(Protocol):
    """A goal. ``proposals``: moves towards it, best first. ``accepts``: whether a later goal may make a move."""

    def proposals(self, owners: Owners) -> Iterator[Move]: ...

    def accepts(self, owners: Owners, move: Move) -> bool: ...


class RunsWhereStateIs:
    """A task runs on a process that is caught up, if one is."""

    def __init__(self, cluster: Cluster, config: AssignConfig) -> None:
        acceptable = config.acceptable_recovery_lag
        self.ready = {
            task: [client.process_id for client in cluster.clients if is_caught_up(client.lags[task], acceptable)]
            for task in sorted(cluster.stateful)
        }

    def proposals(self, owners: Owners) -> Iterator[Move]:
        yield from (Move(task, to[0]) for task, to in self.ready.items() if to and owners[task] not in to)

    def accepts(self, owners: Owners, move: Move) -> bool:  # noqa: ARG002
        ready = self.ready.get(move.task)
        return not ready or move.to in ready


class TasksAreEven:
    """No process has two tasks more than another. A task with less lag on the new process moves first."""

    def __init__(self, cluster: Cluster) -> None:
        self.processes = sorted(cluster.capacities, key=lambda process: process.int)
        self.lags = {client.process_id: client.lags for client in cluster.clients}

    def proposals(self, owners: Owners) -> Iterator[Move]:
        load = Counter(owners.values())
        for most in sorted(self.processes, key=lambda process: -load[process]):
            for fewest in sorted(self.processes, key=lambda process: load[process]):
                if load[most] > load[fewest] + 1:
                    mine = [task for task, owner in owners.items() if owner == most]
                    mine.sort(key=lambda task: (self.lags[fewest].get(task, 0), task))
                    yield from (Move(task, fewest) for task in mine)

    def accepts(self, owners: Owners, move: Move) -> bool:
        load = Counter(owners.values())
        return load[owners[move.task]] > load[move.to]


class SubtopologiesAreSpread:
    """As ``TasksAreEven``, for the tasks of each subtopology."""

    def __init__(self, even: TasksAreEven) -> None:
        self._even = even

    def proposals(self, owners: Owners) -> Iterator[Move]:
        for subtopology in sorted({task.subtopology for task in owners}):
            yield from self._even.proposals({t: owner for t, owner in owners.items() if t.subtopology == subtopology})

    def accepts(self, owners: Owners, move: Move) -> bool:
        mine = {task: owner for task, owner in owners.items() if task.subtopology == move.task.subtopology}
        return self._even.accepts(mine, move)


def optimized(owners: Owners, goals: Sequence[Goal]) -> dict[TaskId, UUID]:
    """Apply each goal in turn, until it has no proposal that earlier goals accept."""
    now = dict(owners)
    for at, goal in enumerate(goals):
        while move := next((m for m in goal.proposals(now) if all(g.accepts(now, m) for g in goals[:at])), None):
            now[move.task] = move.to
    return now


def cruise_control(cluster: Cluster, config: AssignConfig) -> Plan:
    first = RunsWhereStateIs(cluster, config)
    even = TasksAreEven(cluster)
    begin = assign_orphans(cluster, promote_standbys(cluster, keep_owners(cluster)))
    owners = optimized(begin, (first, even, SubtopologiesAreSpread(even)))
    target = optimized(owners, (even, SubtopologiesAreSpread(even)))
    copying = {task: to for task, to in target.items() if owners[task] != to and task in cluster.stateful}
    plan = with_standbys(cluster, owners, config.num_standby_replicas)
    return arrange(plan, owners, copying, probing=bool(copying))


POLICY = Policy(
    "cruise_control",
    "Cruise Control",
    "a chain of goals: run where state is, then even tasks, then spread; what only the first refuses warms up",
    always(cruise_control),
    AsksWhenComplete,
    settings={"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": UNLIMITED},
)
