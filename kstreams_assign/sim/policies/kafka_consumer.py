"""Kafka's consumer ``StickyAssignor``: greedy, then passes that move a partition to a better place while there is one.

Taken from KIP-441: the valid part of the prior assignment stays; free partitions go to the member with the fewest; then
a partition goes back to its prior member if its present one has more, or to the member with the fewest. It ignores
state: the new owner of a task restores it. Standbys are placed in the same way (``with_standbys``).
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId
from kstreams_assign.sim.policies.policy import Policy, always, assign_orphans, keep_owners, with_standbys


def sticky_consumer(cluster: Cluster, config: AssignConfig) -> Plan:
    prior = keep_owners(cluster)
    owners = assign_orphans(cluster, prior)
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
    """Move a task to a better place; return whether there was one."""
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
    "the consumer's greedy assignment and its balancing passes; it ignores state",
    always(sticky_consumer),
)
