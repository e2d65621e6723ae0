"""YARN: a new resource is given away, and nothing that is in use is taken back.

Taken from KIP-441: "maybe the right way to look at it is to consider the YARN resources as Stream tasks, and YARN jobs as Streams instances": a task
that nobody runs is a free resource and goes to the instance with the fewest; a running one stays. So a new instance gets nothing
before another leaves.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.sim.policies.policy import Policy, always, given_away, kept, with_standbys


def yarn(cluster: Cluster, config: AssignConfig) -> Plan:
    return with_standbys(cluster, given_away(cluster, kept(cluster)), config.num_standby_replicas)


POLICY = Policy(
    "yarn", "YARN", "free tasks go to the process with the fewest; what runs is never taken away", always(yarn)
)
