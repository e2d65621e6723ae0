"""Flink: no standbys, task slots filled in order, and the job starts anew when its workers change.

Taken from KIP-441: there is no notion of a standby, checkpoints in a distributed store are for recovery (read here as fast as a changelog), and slots
are a fixed part of a worker. That the whole job stops for it is Flink's own habit; the text does not speak of it.
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
    "no standbys; slots are filled in order, whoever had the task; everything stops while the job starts anew",
    always(flink),
    Eager,
    Suspending,
    {"standbys": 0},
)
