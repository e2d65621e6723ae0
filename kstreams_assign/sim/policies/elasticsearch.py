"""Elasticsearch: allocation by weights (0.45: number of shards, 0.55: shards of the same index), then rebalancing.

Taken from KIP-441: index = subtopology, shard = task; the weight function and its two settings; free shards go to the
lowest weight, in order of index and shard; rebalancing only when all shards are allocated, two moves at a time. A shard
that moves is copied first and served by its old node meanwhile; a replica takes over when the primary is lost.
Elasticsearch's own default: a difference in weight of 1 is worth a move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Plan, is_caught_up
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.bootstrap import NEVER_MS, AsksForEach
from kstreams_assign.sim.policies.policy import Policy, always, arrange, keep_owners, promote_standbys, with_standbys

SHARD_BALANCE, INDEX_BALANCE = 0.45, 0.55
THRESHOLD = 1.0
AT_ONCE = 2


class Balancer:
    """Counts shards by node and index; the averages are of all shards, allocated or not."""

    def __init__(self, cluster: Cluster, owners: Mapping[TaskId, UUID]) -> None:
        self.nodes = sorted(cluster.capacities, key=lambda node: node.int)
        self.owners = dict(owners)
        self._all = sorted(cluster.tasks)

    def weight(self, node: UUID, index: int, additional: int = 0) -> float:
        """``BalancedShardsAllocator``'s weight of a node for an index, as KIP-441 quotes it."""
        mine = [task for task, owner in self.owners.items() if owner == node]
        of_index = sum(task.subtopology == index for task in mine)
        average = len(self._all) / len(self.nodes)
        average_of_index = sum(task.subtopology == index for task in self._all) / len(self.nodes)
        whole = SHARD_BALANCE + INDEX_BALANCE
        by_shard = len(mine) + additional - average
        by_index = of_index + additional - average_of_index
        return SHARD_BALANCE / whole * by_shard + INDEX_BALANCE / whole * by_index

    def allocate(self) -> None:
        for task in self._all:
            if task not in self.owners:
                self.owners[task] = min(self.nodes, key=lambda node: self.weight(node, task.subtopology, 1))

    def moves(self, nearness: Mapping[UUID, Mapping[TaskId, int]]) -> Iterator[tuple[TaskId, UUID]]:
        """Yield the next shard to move and its node: from the heaviest to the lightest node, least lag first."""
        for index in sorted({task.subtopology for task in self._all}):
            while True:
                light, *_, heavy = sorted(self.nodes, key=lambda node: self.weight(node, index)) * 2
                mine = [task for task, node in self.owners.items() if node == heavy and task.subtopology == index]
                if self.weight(heavy, index) - self.weight(light, index) <= THRESHOLD or not mine:
                    break
                task = min(mine, key=lambda task: (nearness[light].get(task, 0), task))
                self.owners[task] = light
                yield task, light


def elasticsearch(cluster: Cluster, config: AssignConfig) -> Plan:
    allocated = promote_standbys(cluster, keep_owners(cluster))
    balancer = Balancer(cluster, allocated)
    balancer.allocate()
    owners = dict(balancer.owners)
    copying: dict[TaskId, UUID] = {}
    lags = {client.process_id: client.lags for client in cluster.clients}
    if cluster.tasks <= allocated.keys():
        for task, node in balancer.moves(lags):
            if is_caught_up(lags[node].get(task, 0), config.acceptable_recovery_lag):
                owners[task] = node
            elif len(copying) < AT_ONCE:
                copying[task] = node
            else:
                break
    plan = with_standbys(cluster, owners, config.num_standby_replicas)
    return arrange(plan, owners, copying, probing=bool(copying))


POLICY = Policy(
    "elasticsearch",
    "Elasticsearch",
    "allocation by weights of 0.45 (shards) and 0.55 (shards of the index), two warm moves at a time; members ask when "
    "one is done",
    always(elasticsearch),
    AsksForEach,
    settings={"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": AT_ONCE},
)
