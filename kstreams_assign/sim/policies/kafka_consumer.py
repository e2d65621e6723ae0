"""Kafka's consumer ``StickyAssignor``: greedy, then passes that move a partition to a better place until none is better.

Taken from KIP-441: the valid part of the prior assignment stays; what is free goes to the member with the fewest; then each
partition goes back to its prior host if its present one is worse off, or else to the member with the fewest. It has one class of
partitions and knows no state: whoever gets a task restores it. Standbys, a second class, are placed alike (``with_standbys``).
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.policy import Policy, always, given_away, kept, with_standbys


def sticky_consumer(cluster: Cluster, config: AssignConfig) -> Plan:
    prior = kept(cluster)
    owners = given_away(cluster, prior)
    load = Counter(owners.values())
    moved = True
    while moved:
        moved = (
            sum(_better(task, owners, prior.get(task), load, list(cluster.capacities)) for task in sorted(owners)) > 0
        )
    return with_standbys(cluster, owners, config.num_standby_replicas)


def _better(
    task: TaskId, owners: dict[TaskId, UUID], prior: UUID | None, load: Counter[UUID], processes: list[UUID]
) -> bool:
    """Move one task to a better place; whether there was one."""
    here = owners[task]
    fewest = min(processes, key=lambda process: (load[process], process.int))
    for there in (prior, fewest):
        if there is not None and load[here] > load[there] + 1:
            owners[task] = there
            load[here] -= 1
            load[there] += 1
            return True
    return False


POLICY = Policy(
    "kafka_consumer",
    "Kafka StickyAssignor",
    "the consumer's greedy assignment and its balancing passes; state is not looked at",
    always(sticky_consumer),
)
