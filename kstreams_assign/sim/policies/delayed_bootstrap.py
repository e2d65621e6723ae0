"""Both: a new process bootstraps standbys at once, also of tasks that wait for an owner; others wait for the delay."""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Plan, sticky
from kstreams_assign.sim.policies.bootstrap import UNLIMITED, AsksWhenComplete, bootstrap, bootstrapping
from kstreams_assign.sim.policies.delayed import DELAY_MS, ready
from kstreams_assign.sim.policies.policy import Policy, arrange, keep_owners


def both(over: bool) -> Assignor:
    return bootstrap if over else until_it_is_over


def until_it_is_over(cluster: Cluster, config: AssignConfig) -> Plan:
    target = sticky(cluster, config)
    running = keep_owners(cluster)
    warm = ready(cluster, config, target)
    moving = {task: to for task, to in target.owners.items() if warm.get(task) == to and task in running}
    owners = {**warm, **running, **moving}
    news = {client.process_id for client in cluster.clients if not client.prev_active}
    orphans = {task: to for task, to in target.owners.items() if task not in owners and to in news}
    waiting = {**bootstrapping(cluster, config, target, running), **orphans}
    started = bool(running)  # when all processes start, there is no owner to wait for
    return arrange(target, owners, waiting if started else {}, probing=owners != target.owners)


POLICY = Policy(
    "delayed_bootstrap",
    "Delayed + Bootstrap",
    "both: the delay for orphaned tasks, standbys first for new processes",
    both,
    AsksWhenComplete,
    settings={"probing_rebalance_interval_ms": DELAY_MS, "max_warmup_replicas": UNLIMITED},
)
