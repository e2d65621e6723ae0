"""Heron, as far as that text goes: a topology's plan divides it into a number of containers. State is kept elsewhere.

Taken from KIP-441: the number of containers is the user's, the plan does not depend on state ("there is nothing we can gain"). Tasks are dealt to
containers in a round, and containers to the processes that are there.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.sim.policies.policy import Policy, always, with_standbys

CONTAINERS = 6


def heron(cluster: Cluster, config: AssignConfig) -> Plan:
    workers = sorted(cluster.capacities, key=lambda worker: worker.int)
    owners = {task: workers[at % CONTAINERS % len(workers)] for at, task in enumerate(sorted(cluster.tasks))}
    return with_standbys(cluster, owners, config.num_standby_replicas)


POLICY = Policy(
    "heron",
    "Heron",
    f"a plan of {CONTAINERS} containers, dealt to the processes that are there, whatever state they have",
    always(heron),
)
