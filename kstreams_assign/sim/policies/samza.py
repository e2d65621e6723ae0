"""Samza: tasks are divided evenly among containers; a task goes to the host with its state if there is room.

Taken from KIP-441: the even distribution over healthy containers, and affinity as a best effort ("in some cases, a
container will get assigned to another available resource"). No warm-ups: a task that goes elsewhere is restored there.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.policy import Policy, always, assign_orphans, with_standbys


def samza(cluster: Cluster, config: AssignConfig) -> Plan:
    room = -(-len(cluster.tasks) // len(cluster.clients))
    preferred = sorted(
        (client.lags[task], task, client.process_id)
        for client in cluster.clients
        for task in (client.prev_active | client.prev_standby) & cluster.stateful
    )
    owners: dict[TaskId, UUID] = {}
    load: Counter[UUID] = Counter()
    for _, task, host in preferred:
        if task not in owners and load[host] < room:
            owners[task] = host
            load[host] += 1
    return with_standbys(cluster, assign_orphans(cluster, owners), config.num_standby_replicas)


POLICY = Policy(
    "samza",
    "Samza",
    "host affinity: a task goes to the host with most of its state if even shares leave room there, else to any host",
    always(samza),
)
