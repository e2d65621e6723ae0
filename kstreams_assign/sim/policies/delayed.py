"""The proposal's *Delayed Imbalance*: Simple, but tasks migrate only when a configured time has passed.

Until then who is here keeps what it runs. A task without an owner goes at once to a process that has all of its state (a standby,
or its old owner that has come back), and else waits for the end of the delay. The delay is a probing interval: the leader asks for the
second rebalance when it ends. A further change in the group begins it anew.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Plan, is_caught_up, sticky
from kstreams_assign.sim.policies.policy import Owners, Policy, kept, laid

DELAY_MS = 60_000


def delayed(over: bool) -> Assignor:
    return sticky if over else until_it_is_over


def until_it_is_over(cluster: Cluster, config: AssignConfig) -> Plan:
    target = sticky(cluster, config)
    owners = {**ready(cluster, config, target), **kept(cluster)}
    return laid(target, owners, {}, probing=owners != target.owners)


def ready(cluster: Cluster, config: AssignConfig, target: Plan) -> Owners:
    """Tasks that somebody can run at once, by who that is: whom the target names if it is ready, else the least loaded."""
    load = {process: len(placed.active) for process, placed in target.placements.items()}
    found = {}
    for task in sorted(cluster.stateful):
        warm = [
            one.process_id for one in cluster.clients if is_caught_up(one.lags[task], config.acceptable_recovery_lag)
        ]
        if warm:
            found[task] = min(warm, key=lambda process: (process != target.owners[task], load[process], process.int))
            load[found[task]] += 1
    return found


POLICY = Policy(
    "delayed",
    "Delayed Imbalance",
    f"Simple, but what has to move moves {DELAY_MS // 1000} s later; ownerless tasks without a complete copy wait as long",
    delayed,
    settings={"probing_rebalance_interval_ms": DELAY_MS},
)
