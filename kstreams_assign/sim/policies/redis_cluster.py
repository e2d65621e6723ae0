"""Redis Cluster: a replica is of a node, not of slots; a node runs tasks or copies all tasks of another node.

Taken from KIP-441: a node has only active or only passive tasks; a replica follows one primary and replaces it; slots
are moved only by hand, so nothing is balanced. If a lost primary has no replica, its tasks go to the other primaries.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Client, Cluster, Placement, Plan
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.policy import Policy, always, assign_orphans, keep_owners, promote_standbys


def redis_cluster(cluster: Cluster, config: AssignConfig) -> Plan:
    copies = config.num_standby_replicas
    owners = promote_standbys(cluster, keep_owners(cluster))
    expected = -(-len(cluster.clients) // (1 + copies))
    primaries = sorted(set(owners.values()), key=lambda node: node.int)
    others = [client for client in cluster.clients if client.process_id not in primaries]
    primaries += [client.process_id for client in others[: max(0, expected - len(primaries))]]
    owners = assign_orphans(cluster, owners, primaries)
    running = {node: frozenset(task for task, owner in owners.items() if owner == node) for node in primaries}
    placements = {node: Placement(tasks) for node, tasks in running.items()}
    following: Counter[UUID] = Counter()
    for client in others:
        if client.process_id not in placements:
            node = min(primaries, key=lambda node: (following[node], -_held(client, running[node]), node.int))
            following[node] += 1
            placements[client.process_id] = Placement(standby=running[node] & cluster.stateful)
    return Plan(placements, probing=False)


def _held(client: Client, tasks: frozenset[TaskId]) -> int:
    """Return how many of these tasks it has a standby of."""
    return len(client.prev_standby & tasks)


POLICY = Policy(
    "redis_cluster",
    "Redis Cluster",
    "a replica follows a node and replaces it; a node either runs tasks or copies them; nothing is balanced",
    always(redis_cluster),
)
