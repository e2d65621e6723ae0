"""The properties that every plan must have (KIP-441, "Assignment Algorithm"), as checks that name the culprit.

Each check returns a list of texts, empty if the plan is correct. Tests, the simulator and ``what-if`` use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import KEPT_UP_TO, is_caught_up, offsets_to_restore, rank
from kstreams_assign.assign.values import AssignConfig, Client, Cluster, Placement, Plan
from kstreams_assign.model import TaskId, process_order

Holders = dict[TaskId, list[UUID]]


def check(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Return what violates any of the properties below."""
    return [
        *check_placements(cluster, plan),
        *check_single_owner(cluster, plan),
        *check_single_replica(plan),
        *check_standbys(cluster, config, plan),
        *check_warmups(cluster, config, plan),
        *check_actives_caught_up(cluster, config, plan),
        *check_restores(cluster, config, plan),
        *check_waiting(cluster, config, plan),
    ]


def check_placements(cluster: Cluster, plan: Plan) -> list[str]:
    """Check that the plan has a placement for each process of the cluster, and awaits none of them."""
    known = {client.process_id for client in cluster.clients}
    missing = [f"process {process} has no placement" for process in _in_order(known - plan.placements.keys())]
    extra = [f"process {process} is not in the cluster" for process in _in_order(plan.placements.keys() - known)]
    awaited = [f"process {process} is awaited and in the cluster" for process in _in_order(known & plan.awaited.keys())]
    return missing + extra + awaited


def check_single_owner(cluster: Cluster, plan: Plan) -> list[str]:
    """Check that each task of the cluster, stateful or not, is active on exactly one process, or waits for one."""
    owners = _holders({process: placed.active for process, placed in _all_placements(plan).items()})
    texts = [f"task {task} is not active on any process" for task in sorted_tasks(cluster.tasks - owners.keys())]
    texts += [f"task {task} is not in the cluster" for task in sorted_tasks(owners.keys() - cluster.tasks)]
    return texts + [
        f"task {task} is active on {len(owners[task])} processes: {_names(owners[task])}"
        for task in sorted_tasks(owners.keys())
        if len(owners[task]) > 1
    ]


def check_single_replica(plan: Plan) -> list[str]:
    """Check that no process holds two replicas of a task."""
    texts = []
    placements = _all_placements(plan)
    for process in _in_order(placements):
        placed = placements[process]
        twice = (placed.active & placed.standby) | (placed.active & placed.warmup) | (placed.standby & placed.warmup)
        texts += [f"process {process} holds two replicas of task {task}" for task in sorted_tasks(twice)]
    return texts


def check_standbys(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Check that each stateful task has ``num_standby_replicas`` standbys, and that stateless tasks have none.

    A task needs no more standbys than there are other processes. Those of awaited processes count.
    """
    wanted = min(config.num_standby_replicas, len(cluster.clients) + len(plan.awaited) - 1)
    holders = _holders({process: placed.standby for process, placed in _all_placements(plan).items()})
    texts = [f"task {task} has a standby but no state" for task in sorted_tasks(holders.keys() - cluster.stateful)]
    for task in sorted_tasks(cluster.stateful):
        have = len(holders.get(task, ()))
        if have != wanted:
            texts.append(f"task {task} has {have} standbys instead of {wanted}: {_names(holders.get(task, ()))}")
    return texts


def check_warmups(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Check that the group has at most ``max_warmup_replicas`` warm-ups, of stateful tasks only."""
    holders = _holders({process: placed.warmup for process, placed in _all_placements(plan).items()})
    texts = [f"task {task} has a warm-up but no state" for task in sorted_tasks(holders.keys() - cluster.stateful)]
    count = sum(map(len, holders.values()))
    if count > config.max_warmup_replicas:
        names = ", ".join(map(str, sorted_tasks(holders.keys())))
        texts.append(f"{count} warm-ups exceed max_warmup_replicas = {config.max_warmup_replicas}: {names}")
    return texts


def check_actives_caught_up(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Check that each stateful task is active on a process of the least rank (``lags.rank``).

    The plan may name exceptions, ``restores``, for which ``check_restores`` is responsible.
    """
    texts = []
    clients = {client.process_id: client for client in cluster.clients}
    for task, process in plan.owners.items():
        if task not in cluster.stateful or process not in clients or task in plan.restores:
            continue
        own = rank(clients[process].lags[task], config.acceptable_recovery_lag)
        least, best = _least_rank(cluster, config, task)
        if least < own:
            texts.append(f"task {task} is active on {process} (rank {own}), but {best} has rank {least}")
    return texts


def check_restores(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Check that each of the plan's ``restores`` is that of a task that no process has caught up with.

    A process with more of its state must need no less time for it: it would have to read as much, of all its active
    tasks, as the process that restores the task. The previous owner may need up to twice the time (``KEPT_UP_TO``), and
    the time is not checked while processes are awaited, as the assignor decides for them, too.
    """
    texts = []
    clients = {client.process_id: client for client in cluster.clients}
    owners, ran = plan.owners, _previous_owners(cluster, config) if plan.restores else {}
    for task in sorted_tasks(plan.restores.keys() & owners.keys()):
        mine = clients[owners[task]]
        own = rank(mine.lags[task], config.acceptable_recovery_lag)
        for other in cluster.clients:
            if is_caught_up(other.lags[task], config.acceptable_recovery_lag):
                texts.append(f"task {task} is restored on {mine.process_id}, but {other.process_id} has caught up")
            elif not plan.awaited and other.lags[task] < own and _is_sooner(other, mine, task, plan, ran):
                texts.append(f"task {task} is restored on {mine.process_id}, but {other.process_id} would be sooner")
    return texts


def _is_sooner(other: Client, client: Client, task: TaskId, plan: Plan, ran: Mapping[UUID, Iterable[TaskId]]) -> bool:
    """Return whether the other process would have the task sooner, and a previous owner by more than it may need."""
    lag = other.lags[task]
    now, its = (_lacking(each, plan.placements[each.process_id].active) for each in (client, other))
    mine, others = (ran.get(each.process_id, ()) for each in (client, other))
    if task in mine and _lacking(client, mine) <= KEPT_UP_TO * (_lacking(other, others) + lag):
        return False
    return now > its + lag


def _previous_owners(cluster: Cluster, config: AssignConfig) -> dict[UUID, list[TaskId]]:
    """Return the stateful tasks that each process ran: of several that claim one, the most caught-up, then the first.

    A process that did not hear of the last assignment claims what it ran before.
    """
    best: dict[TaskId, tuple[bool, int, int, UUID]] = {}
    for number, client in enumerate(sorted(cluster.clients, key=lambda client: process_order(client.process_id))):
        for task in client.prev_active & cluster.stateful:
            lag = client.lags[task]
            behind = not is_caught_up(lag, config.acceptable_recovery_lag)
            claim = (behind, rank(lag, config.acceptable_recovery_lag), number, client.process_id)
            best[task] = min(claim, best.get(task, claim))
    ran: dict[UUID, list[TaskId]] = {}
    for task, (*_, process) in best.items():
        ran.setdefault(process, []).append(task)
    return ran


def check_waiting(cluster: Cluster, config: AssignConfig, plan: Plan) -> list[str]:
    """Check that a waiting task has state, no present owner, and no caught-up replica (``assign.awaited``)."""
    texts = []
    for task, process in sorted(plan.waiting.items()):
        waits = f"task {task} waits for {process}"
        if task not in cluster.stateful:
            texts.append(f"{waits}, but has no state")
            continue
        texts += [f"{waits}, but {c.process_id} runs it" for c in cluster.clients if task in c.prev_active]
        texts += [
            f"{waits}, but {c.process_id} is caught up"
            for c in cluster.clients
            if is_caught_up(c.lags[task], config.acceptable_recovery_lag)
        ]
    return texts


def _all_placements(plan: Plan) -> dict[UUID, Placement]:
    return {**plan.placements, **plan.awaited}


def _lacking(client: Client, tasks: Iterable[TaskId]) -> int:
    return sum(offsets_to_restore(client.lags[task]) for task in tasks if task in client.lags)


def _least_rank(cluster: Cluster, config: AssignConfig, task: TaskId) -> tuple[int, UUID]:
    return min(
        (rank(client.lags[task], config.acceptable_recovery_lag), client.process_id) for client in cluster.clients
    )


def _holders(tasks_by_process: Mapping[UUID, Iterable[TaskId]]) -> Holders:
    holders: Holders = {}
    for process in _in_order(tasks_by_process):
        for task in tasks_by_process[process]:
            holders.setdefault(task, []).append(process)
    return holders


def _in_order(processes: Iterable[UUID]) -> list[UUID]:
    return sorted(processes, key=process_order)


def _names(processes: Iterable[UUID]) -> str:
    return ", ".join(map(str, processes)) or "no process"
