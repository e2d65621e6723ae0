"""YARN: free resources are given out, and resources in use are never taken back.

Taken from KIP-441: "maybe the right way to look at it is to consider the YARN resources as Stream tasks, and YARN jobs
as Streams instances": an orphaned task is a free resource and goes to the instance with the fewest; a running task
stays. So a new instance gets nothing before another leaves.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.sim.policies.policy import Policy, always, assign_orphans, keep_owners, with_standbys


def yarn(cluster: Cluster, config: AssignConfig) -> Plan:
    return with_standbys(cluster, assign_orphans(cluster, keep_owners(cluster)), config.num_standby_replicas)


POLICY = Policy(
    "yarn", "YARN", "orphaned tasks go to the process with the fewest; running tasks never move", always(yarn)
)
