"""The proposal's *Delayed Imbalance*: Simple, but tasks migrate only after a delay.

Until then processes keep their tasks. A task without an owner goes at once to a process with its whole state (a
standby, or its old owner that is back); otherwise it waits for the end of the delay. The delay is a probing interval:
the leader asks for the second rebalance when it ends. Another change in the group starts the delay again.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Plan, is_caught_up, sticky
from kstreams_assign.sim.policies.policy import Owners, Policy, arrange, keep_owners

DELAY_MS = 60_000


def delayed(over: bool) -> Assignor:
    return sticky if over else until_it_is_over


def until_it_is_over(cluster: Cluster, config: AssignConfig) -> Plan:
    target = sticky(cluster, config)
    owners = {**ready(cluster, config, target), **keep_owners(cluster)}
    return arrange(target, owners, {}, probing=owners != target.owners)


def ready(cluster: Cluster, config: AssignConfig, target: Plan) -> Owners:
    """Return tasks that a process can run at once, with that process: the target if ready, or the least loaded."""
    load = {process: len(placed.active) for process, placed in target.placements.items()}
    assigned = {}
    for task in sorted(cluster.stateful):
        warm = [
            client.process_id
            for client in cluster.clients
            if is_caught_up(client.lags[task], config.acceptable_recovery_lag)
        ]
        if warm:
            assigned[task] = min(warm, key=lambda process: (process != target.owners[task], load[process], process.int))
            load[assigned[task]] += 1
    return assigned


POLICY = Policy(
    "delayed",
    "Delayed Imbalance",
    f"Simple, but tasks move {DELAY_MS // 1000} s later; orphaned tasks without a complete replica wait as long",
    delayed,
    settings={"probing_rebalance_interval_ms": DELAY_MS},
)
