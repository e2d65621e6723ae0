"""Draining: a process that is about to leave keeps its tasks until another process has a caught-up replica of each.

Any assignor can be drained: it decides for the staying processes, as if the others had left. A task that would then
start cold stays where it runs while its new owner warms up, within the group's warm-up budget. Stateless tasks and
tasks with a caught-up replica move at once. If another process dies, a leaving process may have the only caught-up
replica of a task: it runs the task until the new owner has caught up. A new owner without a warm-up takes the place of
a colder standby: to the assignor it is the owner and has no other replica, so it would lose its state. The KIPs have no
such feature: the tasks of a Kafka Streams process that closes are restored from scratch unless a standby exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import is_caught_up
from kstreams_assign.assign.values import NO_TASKS, AssignConfig, Assignor, Client, Cluster, Placement, Plan
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId, process_order


def drain_assignor(assign: Assignor, draining: frozenset[UUID]) -> Assignor:
    """Return the assignor for a cluster in which these processes, but not all of its processes, are leaving."""

    def decide(cluster: Cluster, config: AssignConfig) -> Plan:
        staying = tuple(client for client in cluster.clients if client.process_id not in draining)
        leaving = [client for client in cluster.clients if client.process_id in draining]
        plan = assign(replace(cluster, clients=staying), config)
        return _kept_until_warm(plan, staying, leaving, cluster, config)

    return decide


def _kept_until_warm(
    plan: Plan, staying: Sequence[Client], leaving: Sequence[Client], cluster: Cluster, config: AssignConfig
) -> Plan:
    heirs = {client.process_id: client for client in staying}
    keeper = {task: client.process_id for client in leaving for task in client.prev_active & cluster.stateful}
    keeper |= _with_the_only_replica(plan, keeper, heirs, leaving, cluster.stateful, config.acceptable_recovery_lag)
    heir = {task: process for task, process in plan.owners.items() if task in keeper}
    cold = [t for t in heir if not is_caught_up(heirs[heir[t]].lags[t], config.acceptable_recovery_lag)]
    queue, budget = _first_to_warm(cold, heir, heirs), _budget(plan, config)
    warming = set(queue[:budget])
    replaced = _colder_standbys(queue[budget:], heir, heirs, plan)
    placements = {
        process: Placement(
            active=placed.active - {task for task in cold if heir[task] == process},
            standby=(placed.standby - {task for task in replaced if replaced[task] == process})
            | {task for task in replaced if heir[task] == process},
            warmup=placed.warmup | {task for task in warming if heir[task] == process},
        )
        for process, placed in plan.placements.items()
    }
    for client in leaving:
        kept = frozenset(task for task in cold if keeper[task] == client.process_id)
        placements[client.process_id] = Placement(active=kept or NO_TASKS)
    restores = {task: process for task, process in plan.restores.items() if task not in heir}
    return Plan(placements, probing=plan.probing or bool(cold), restores=restores)


def _with_the_only_replica(
    plan: Plan,
    keeper: Mapping[TaskId, UUID],
    heirs: Mapping[UUID, Client],
    leaving: Sequence[Client],
    stateful: AbstractSet[TaskId],
    acceptable_lag: int,
) -> dict[TaskId, UUID]:
    """Return the most caught-up leaving process of each other task that only leaving processes have caught up on."""
    in_order = sorted(leaving, key=lambda client: process_order(client.process_id))
    replicas: dict[TaskId, UUID] = {}
    for task, process in plan.owners.items():
        if task not in stateful or task in keeper or is_caught_up(heirs[process].lags[task], acceptable_lag):
            continue
        lags = {client.process_id: client.lags.get(task, UNKNOWN_OFFSET_SUM) for client in in_order}
        caught_up = [keeping for keeping, lag in lags.items() if is_caught_up(lag, acceptable_lag)]
        if caught_up and not any(is_caught_up(client.lags[task], acceptable_lag) for client in heirs.values()):
            replicas[task] = min(caught_up, key=lags.__getitem__)
    return replicas


def _budget(plan: Plan, config: AssignConfig) -> int:
    return max(0, config.max_warmup_replicas - sum(len(placed.warmup) for placed in plan.placements.values()))


def _first_to_warm(cold: Sequence[TaskId], heir: Mapping[TaskId, UUID], heirs: Mapping[UUID, Client]) -> list[TaskId]:
    """Sort the cold tasks: first those whose new owner has begun to warm up, then by lag."""

    def rank(task: TaskId) -> tuple[bool, int]:
        client = heirs[heir[task]]
        return task not in client.prev_standby, client.lags[task]

    return sorted(sorted_tasks(cold), key=rank)


def _colder_standbys(
    tasks: Sequence[TaskId], heir: Mapping[TaskId, UUID], heirs: Mapping[UUID, Client], plan: Plan
) -> dict[TaskId, UUID]:
    """Return the process with the coldest standby of each task, if it is colder than the task's heir."""
    coldest: dict[TaskId, UUID] = {task: heir[task] for task in tasks}
    for process, placed in plan.placements.items():
        for task in placed.standby & coldest.keys():
            if heirs[process].lags[task] > heirs[coldest[task]].lags[task]:
                coldest[task] = process
    return {task: process for task, process in coldest.items() if process != heir[task]}
