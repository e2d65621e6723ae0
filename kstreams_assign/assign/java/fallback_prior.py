"""The assignor for a group whose lags are unknown: every task stays (Kafka: ``FallbackPriorTaskAssignor``).

It ignores lags and always asks for a probing rebalance, so that a real decision follows. Where several processes
qualify, Java's answer also depends on the order of its hash tables; here processes and tasks have their natural order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.assign.java.fewest_actives import give_to_fewest_actives
from kstreams_assign.assign.java.plan_table import NO_CLIENT, PlanTable
from kstreams_assign.assign.java.standbys import LeastLoaded
from kstreams_assign.assign.values import AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId

Holders = Mapping[TaskId, list[int]]


def fallback_prior(cluster: Cluster, config: AssignConfig) -> Plan:
    """Return every task to its owner; orphans to a former standby with room, or evenly; standbys to their holders."""
    table = PlanTable(cluster)
    owners = _clients_by_task(client.prev_active for client in table.clients)
    holders = _clients_by_task(client.prev_active | client.prev_standby for client in table.clients)
    give_back_actives(table, owners)
    promote_standbys(table, holders)
    orphans = [task for task, owner in enumerate(table.owner) if owner == NO_CLIENT]
    give_to_fewest_actives(table, orphans, table.give_active)
    stateless = [task for task, owner in enumerate(table.stateless_owner) if owner == NO_CLIENT]
    give_to_fewest_actives(table, stateless, table.give_stateless)
    wanted = min(config.num_standby_replicas, max(0, len(table.clients) - 1))
    keep_standbys(table, holders, wanted)
    fill_up_standbys(table, wanted)
    return table.plan(probing=True)


def _clients_by_task(tasks_by_client: Iterable[Iterable[TaskId]]) -> Holders:
    clients_by_task: dict[TaskId, list[int]] = {}
    for client, tasks in enumerate(tasks_by_client):
        for task in tasks:
            clients_by_task.setdefault(task, []).append(client)
    return clients_by_task


def give_back_actives(table: PlanTable, owners: Holders) -> None:
    """Give every task to its previous owner, regardless of balance; of several claims the first counts."""
    for number, task in enumerate(table.tasks):
        if task in owners:
            table.give_active(number, owners[task][0])
    for number, task in enumerate(table.stateless):
        if task in owners:
            table.give_stateless(number, owners[task][0])


def promote_standbys(table: PlanTable, holders: Holders) -> None:
    """Give each orphan to the least loaded process that holds its state and is below its even share."""
    share = (len(table.tasks) + len(table.stateless)) // max(1, sum(table.capacity))
    for number, task in enumerate(table.tasks):
        if table.owner[number] != NO_CLIENT:
            continue
        room = [
            client for client in holders.get(task, ()) if table.active_count[client] < table.capacity[client] * share
        ]
        if room:
            table.give_active(number, min(room, key=lambda client: table.count[client] / table.capacity[client]))


def keep_standbys(table: PlanTable, holders: Holders, wanted: int) -> None:
    """Give a standby to every process that holds state of the task; if those are too many, to the least loaded ones."""
    for number, task in enumerate(table.tasks):
        warm = [client for client in holders.get(task, ()) if client != table.owner[number]]
        warm.sort(key=lambda client: table.count[client] / table.capacity[client])
        for client in warm[:wanted]:
            table.give_standby(number, client)


def fill_up_standbys(table: PlanTable, wanted: int) -> None:
    """Give missing standbys to the least loaded processes without a replica."""
    queue = LeastLoaded(table)
    for number in range(len(table.tasks)):
        for _ in range(wanted - len(table.standbys(number))):
            queue.give_standby(number)
