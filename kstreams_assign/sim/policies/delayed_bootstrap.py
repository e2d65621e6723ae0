"""Both: who comes new bootstraps standbys at once, also of tasks that wait for their owner; all others wait for the delay's end."""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Plan, sticky
from kstreams_assign.sim.policies.bootstrap import UNLIMITED, AsksWhenComplete, bootstrap, bootstrapping
from kstreams_assign.sim.policies.delayed import DELAY_MS, ready
from kstreams_assign.sim.policies.policy import Policy, kept, laid


def both(over: bool) -> Assignor:
    return bootstrap if over else until_it_is_over


def until_it_is_over(cluster: Cluster, config: AssignConfig) -> Plan:
    target = sticky(cluster, config)
    running = kept(cluster)
    warm = ready(cluster, config, target)
    moving = {task: to for task, to in target.owners.items() if warm.get(task) == to and task in running}
    owners = {**warm, **running, **moving}
    news = {one.process_id for one in cluster.clients if not one.prev_active}
    orphans = {task: to for task, to in target.owners.items() if task not in owners and to in news}
    waiting = {**bootstrapping(cluster, config, target, running), **orphans}
    started = bool(running)  # when all begin there is nobody to wait for
    return laid(target, owners, waiting if started else {}, probing=owners != target.owners)


POLICY = Policy(
    "delayed_bootstrap",
    "Delayed + Bootstrap",
    "both: the delay for tasks without an owner, standbys first for whoever comes new",
    both,
    AsksWhenComplete,
    settings={"probing_rebalance_interval_ms": DELAY_MS, "max_warmup_replicas": UNLIMITED},
)
