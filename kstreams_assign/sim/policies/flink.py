"""Flink: no standbys, task slots filled in order, and the job restarts when its workers change.

Taken from KIP-441: no standbys; recovery from checkpoints in a distributed store (read here as fast as a changelog);
slots are a fixed part of a worker. The restart of the whole job is Flink's behaviour, which the KIP does not mention.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan
from kstreams_assign.sim.policies.current import Eager, Suspending
from kstreams_assign.sim.policies.policy import Policy, always, with_standbys


def flink(cluster: Cluster, config: AssignConfig) -> Plan:  # noqa: ARG001 - an assignor's signature
    workers = sorted(cluster.capacities, key=lambda worker: worker.int)
    slots = -(-len(cluster.tasks) // len(workers))
    return with_standbys(cluster, {task: workers[at // slots] for at, task in enumerate(sorted(cluster.tasks))}, 0)


POLICY = Policy(
    "flink",
    "Flink",
    "no standbys; slots are filled in order, without regard to earlier owners; the whole job stops while it restarts",
    always(flink),
    Eager,
    Suspending,
    {"standbys": 0},
)
