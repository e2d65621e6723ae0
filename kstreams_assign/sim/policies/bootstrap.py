"""The proposal's *Standby Bootstrap*: a new owner gets its tasks as standbys first.

The member asks for a rebalance when all its replicas are complete. Orphaned tasks are assigned at once, as in Simple.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan, is_caught_up, previous_owners, sticky
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.sim.membership import Membership
from kstreams_assign.sim.policies.policy import Owners, Policy, always, arrange

LOOK_MS = 1_000
NEVER_MS = 86_400_000
"""As a probing interval: only members ask for rebalances."""

UNLIMITED = 1_000_000
"""Warm-ups: the proposal has no limit."""


class AsksWhenComplete(Membership):
    """Checks its warm-ups each second, and asks for a rebalance when all are complete."""

    def adopt(self, generation: int, adopted: Adopted) -> None:
        super().adopt(generation, adopted)
        if awaited := self.awaited(adopted):
            self._process.run.later(LOOK_MS, self._look, generation, awaited)

    def awaited(self, adopted: Adopted) -> frozenset[TaskId]:
        """Return the replicas whose completion is awaited."""
        return adopted.warmup

    def _look(self, generation: int, awaited: frozenset[TaskId]) -> None:
        if self.adopted is None or self.machine.generation != generation:
            return
        ready = [task for task in awaited if self.complete(task)]
        if self.worth_asking(len(ready), len(awaited)):
            self.rejoin(f"{len(ready)} of {len(awaited)} replicas are complete")
        else:
            self._process.run.later(LOOK_MS, self._look, generation, awaited)

    def worth_asking(self, ready: int, warmups: int) -> bool:
        return ready == warmups

    def complete(self, task: TaskId) -> bool:
        offset_sum = self.sums.report(owned_only=True).get(task, 0)
        lag = self._world.logs.ends[task] - offset_sum
        return offset_sum != RUNNING_OFFSET_SUM and is_caught_up(lag, self._world.config.acceptable_recovery_lag)


class AsksForEach(AsksWhenComplete):
    """Asks for a rebalance as soon as one replica is complete."""

    def worth_asking(self, ready: int, warmups: int) -> bool:  # noqa: ARG002
        return ready > 0


def bootstrapping(cluster: Cluster, config: AssignConfig, target: Plan, running: Owners) -> Owners:
    """Return the tasks that must move to a process that is not caught up yet, with that process."""
    lags = {client.process_id: client.lags for client in cluster.clients}
    return {
        task: process
        for task, process in target.owners.items()
        if task in cluster.stateful
        and running.get(task, process) != process
        and not is_caught_up(lags[process][task], config.acceptable_recovery_lag)
    }


def bootstrap(cluster: Cluster, config: AssignConfig) -> Plan:
    target = sticky(cluster, config)
    running = previous_owners(cluster)
    waiting = bootstrapping(cluster, config, target, running)
    owners = {**target.owners, **{task: running[task] for task in waiting}}
    return arrange(target, owners, waiting, probing=bool(waiting))


POLICY = Policy(
    "bootstrap",
    "Standby Bootstrap",
    "Simple, but a new owner restores a task as a standby first and asks for a rebalance when it has all of its tasks",
    always(bootstrap),
    AsksWhenComplete,
    settings={"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": UNLIMITED},
)
