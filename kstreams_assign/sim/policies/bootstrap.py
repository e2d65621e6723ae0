"""The proposal's *Standby Bootstrap*: a task's new owner gets it as a standby first, and asks for a rebalance when it has all of them.

Who asks is the member, once its copies are complete. What nobody runs is given out at once, as in Simple.
"""

from __future__ import annotations

from kstreams_assign.assign import AssignConfig, Cluster, Plan, is_caught_up, previous_owners, sticky
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.sim.membership import Membership
from kstreams_assign.sim.policies.policy import Owners, Policy, always, laid

LOOK_MS = 1_000
NEVER_MS = 86_400_000
"""As a probing interval: nobody but the members asks."""

UNLIMITED = 1_000_000
"""Of warm-ups: the proposal does not bound them."""


class AsksWhenComplete(Membership):
    """Looks at its warm-ups each second, and wants a rebalance when all of them are complete."""

    def adopt(self, generation: int, adopted: Adopted) -> None:
        super().adopt(generation, adopted)
        if awaited := self.awaited(adopted):
            self._process.run.later(LOOK_MS, self._look, generation, awaited)

    def awaited(self, adopted: Adopted) -> frozenset[TaskId]:
        """The copies whose completion brings a rebalance nearer."""
        return adopted.warmup

    def _look(self, generation: int, awaited: frozenset[TaskId]) -> None:
        if self.adopted is None or self.machine.generation != generation:
            return
        ready = [task for task in awaited if self.complete(task)]
        if self.worth_asking(len(ready), len(awaited)):
            self.rejoin(f"{len(ready)} of {len(awaited)} copies are complete")
        else:
            self._process.run.later(LOOK_MS, self._look, generation, awaited)

    def worth_asking(self, ready: int, warmups: int) -> bool:
        return ready == warmups

    def complete(self, task: TaskId) -> bool:
        told = self.sums.report(owned_only=True).get(task, 0)
        lag = self._world.logs.ends[task] - told
        return told != RUNNING_OFFSET_SUM and is_caught_up(lag, self._world.config.acceptable_recovery_lag)


class AsksForEach(AsksWhenComplete):
    """Does not wait for the others."""

    def worth_asking(self, ready: int, warmups: int) -> bool:  # noqa: ARG002
        return ready > 0


def bootstrapping(cluster: Cluster, config: AssignConfig, target: Plan, running: Owners) -> Owners:
    """Tasks that run elsewhere than they should, by where they should and are not ready to."""
    lags = {one.process_id: one.lags for one in cluster.clients}
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
    return laid(target, owners, waiting, probing=bool(waiting))


POLICY = Policy(
    "bootstrap",
    "Standby Bootstrap",
    "Simple, but a new owner restores a task as a standby first and asks for a rebalance when it has all of its tasks",
    always(bootstrap),
    AsksWhenComplete,
    settings={"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": UNLIMITED},
)
