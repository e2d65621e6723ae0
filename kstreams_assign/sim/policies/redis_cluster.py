"""Redis Cluster: replicas are of nodes, not of slots; a node runs tasks or copies another node's, all of them.

Taken from KIP-441: a node has active or passive copies only, a replica follows one primary and takes its place, and slots are moved by hand alone,
so nothing is evened out. Where no replica follows, what a lost primary had is given out among the primaries.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Client, Cluster, Placement, Plan
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.policy import Policy, always, given_away, kept, promoted


def redis_cluster(cluster: Cluster, config: AssignConfig) -> Plan:
    copies = config.num_standby_replicas
    owners = promoted(cluster, kept(cluster))
    wanted = -(-len(cluster.clients) // (1 + copies))
    primaries = sorted(set(owners.values()), key=lambda node: node.int)
    others = [one for one in cluster.clients if one.process_id not in primaries]
    primaries += [one.process_id for one in others[: max(0, wanted - len(primaries))]]
    owners = given_away(cluster, owners, primaries)
    running = {node: frozenset(task for task, owner in owners.items() if owner == node) for node in primaries}
    placements = {node: Placement(tasks) for node, tasks in running.items()}
    following: Counter[UUID] = Counter()
    for one in others:
        if one.process_id not in placements:
            node = min(primaries, key=lambda node: (following[node], -_held(one, running[node]), node.int))
            following[node] += 1
            placements[one.process_id] = Placement(standby=running[node] & cluster.stateful)
    return Plan(placements, probing=False)


def _held(one: Client, tasks: frozenset[TaskId]) -> int:
    """How many of these it has a copy of."""
    return len(one.prev_standby & tasks)


POLICY = Policy(
    "redis_cluster",
    "Redis Cluster",
    "a replica follows a node and takes its place; nodes run tasks or copy them; nothing is evened out",
    always(redis_cluster),
)
