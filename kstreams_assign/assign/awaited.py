"""Processes that restart: their tasks wait for them for a while, instead of being restored elsewhere for nothing.

A process that restarts announces it, and leaves (Kafka Connect's idea: KIP-415, ``scheduled.rebalance.max.delay.ms``).
While it is awaited, any assignor decides as if it were still there, with all that it had. Then each task that the
decision gives to an awaited process is settled:

- It **waits**, if it is stateful, the process ran it when it announced its restart, no present process owns it, and
  none has a caught-up replica.
- Otherwise a present process runs it meanwhile: its owner, or the most caught-up one. If that has a standby or warm-up
  of the task, the two processes swap roles, so the number of replicas stays the same.

A process that is back counts as the owner of what it ran: so every task returns. Who is awaited, and until when, is
decided in ``group.awaiting``; this module has no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import TaskLags, is_caught_up, rank
from kstreams_assign.assign.values import NO_TASKS, AssignConfig, Assignor, Client, Cluster, Placement, Plan
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, process_order


def await_assignor(assign: Assignor, awaited: Sequence[Client]) -> Assignor:
    """Return the assignor for a cluster that lacks these processes, which are to come back.

    Each has what it had when it left: ``prev_active`` the tasks that it ran, ``prev_standby`` its other replicas. Their
    ``lags`` are ignored: their state counts as caught up.
    """

    def decide(cluster: Cluster, config: AssignConfig) -> Plan:
        absent = tuple(_as_it_was(client, cluster) for client in awaited)
        present = tuple(_without(client, absent) for client in cluster.clients)
        plan = assign(replace(cluster, clients=present + absent), config)
        waiting = find_waiting(cluster, config, awaited)
        return _Settlement(cluster, config, plan, absent, waiting).plan()

    return decide


def find_waiting(cluster: Cluster, config: AssignConfig, awaited: Sequence[Client]) -> dict[TaskId, UUID]:
    """Return the tasks that run nowhere until their process is back, each with that process."""
    owned = {task for client in cluster.clients for task in client.prev_active}
    ran = {task: client.process_id for client in awaited for task in client.prev_active & cluster.stateful}
    return {
        task: ran[task]
        for task in sorted_tasks(ran.keys() - owned)
        if not any(is_caught_up(client.lags[task], config.acceptable_recovery_lag) for client in cluster.clients)
    }


def give_back(cluster: Cluster, returned: Mapping[UUID, frozenset[TaskId]], acceptable_recovery_lag: int) -> Cluster:
    """Count each process of the cluster that is back as the owner of what it ran before its restart.

    A task that another process runs meanwhile counts only if its state here is caught up, or if it has none.
    """
    owned = {task for client in cluster.clients for task in client.prev_active}
    claims: dict[UUID, frozenset[TaskId]] = {}
    for client in cluster.clients:
        ran = returned.get(client.process_id, NO_TASKS) & cluster.tasks
        claims[client.process_id] = frozenset(
            task
            for task in ran
            if task not in owned
            or task in cluster.stateless
            or is_caught_up(client.lags[task], acceptable_recovery_lag)
        )
    claimed = frozenset[TaskId]().union(*claims.values())
    if not claimed:
        return cluster
    clients = tuple(_claiming(client, claims[client.process_id], claimed) for client in cluster.clients)
    return replace(cluster, clients=clients)


def _claiming(client: Client, mine: frozenset[TaskId], claimed: frozenset[TaskId]) -> Client:
    lent = client.prev_active & claimed - mine
    return replace(
        client, prev_active=client.prev_active - lent | mine, prev_standby=(client.prev_standby | lent) - mine
    )


def _without(client: Client, absent: Sequence[Client]) -> Client:
    """Return the client as the owner only of what no absent process ran: it runs the rest in its place."""
    return _claiming(client, NO_TASKS, NO_TASKS.union(*(each.prev_active for each in absent)))


def _as_it_was(client: Client, cluster: Cluster) -> Client:
    """Return an absent process with the tasks of this cluster that it had, at the ends of their changelogs."""
    active = client.prev_active & cluster.tasks
    standby = client.prev_standby & cluster.stateful - active
    ends = next((c.lags.end_offset_sums for c in cluster.clients if isinstance(c.lags, TaskLags)), None)
    if ends is None:
        ends = {task: max(c.lags[task] for c in cluster.clients) for task in cluster.stateful}
    sums = {task: ends[task] for task in standby} | dict.fromkeys(active & cluster.stateful, RUNNING_OFFSET_SUM)
    return replace(client, prev_active=active, prev_standby=standby, lags=TaskLags(ends, sums))


class _Settlement:
    """The present processes' placements, as what is planned for absent processes is settled task by task."""

    def __init__(
        self,
        cluster: Cluster,
        config: AssignConfig,
        plan: Plan,
        absent: Sequence[Client],
        waiting: Mapping[TaskId, UUID],
    ) -> None:
        self._cluster = cluster
        self._acceptable = config.acceptable_recovery_lag
        self._planned = plan
        self._waiting = waiting
        self._absent = [client.process_id for client in absent]
        placed = plan.placements.items()
        self._active = {process: set(placement.active) for process, placement in placed}
        self._standby = {process: set(placement.standby) for process, placement in placed}
        self._warmup = {process: set(placement.warmup) for process, placement in placed}

    def plan(self) -> Plan:
        owners = self._planned.owners
        for task, process in self._waiting.items():
            self._swap(task, owners[task], process)
        for process in self._absent:
            for task in sorted_tasks(self._active[process] - self._waiting.keys()):
                self._swap(task, process, self._most_caught_up(task).process_id)
        placements = {
            process: Placement(*map(frozenset, (active, self._standby[process], self._warmup[process])))
            for process, active in self._active.items()
        }
        awaited = {process: placements.pop(process) for process in self._absent}
        return replace(self._planned, placements=placements, awaited=awaited)

    def _swap(self, task: TaskId, owner: UUID, heir: UUID) -> None:
        """Make the heir the owner of the task; the owner gets the replica that the heir had, if any."""
        self._active[owner].remove(task)
        for replicas in (self._standby, self._warmup):
            if task in replicas[heir]:
                replicas[heir].remove(task)
                replicas[owner].add(task)
        self._active[heir].add(task)

    def _most_caught_up(self, task: TaskId) -> Client:
        """Return the present process of the least rank: of these a caught-up one, its owner, the least loaded one."""

        def order(client: Client) -> tuple[int, bool, bool, float, tuple[int, int]]:
            lag = client.lags[task] if task in self._cluster.stateful else 0
            return (
                rank(lag, self._acceptable),
                not is_caught_up(lag, self._acceptable),
                task not in client.prev_active,
                len(self._active[client.process_id]) / client.capacity,
                process_order(client.process_id),
            )

        return min(self._cluster.clients, key=order)
