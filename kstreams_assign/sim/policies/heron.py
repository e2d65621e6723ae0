"""Heron, as KIP-441 describes it: a plan divides a topology into containers. State is kept elsewhere.

Taken from KIP-441: the user sets the number of containers; the plan does not depend on state ("there is nothing we can
gain"). Tasks go to containers in turn, and containers to processes in turn.
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
    f"a plan of {CONTAINERS} containers, given to the processes in turn, without regard to their state",
    always(heron),
)
