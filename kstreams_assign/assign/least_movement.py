"""Our assignor: KIP-441's six properties with the fewest owner changes that balance allows.

It plans backwards: first where every task and standby shall be in the end (``final_owners``, ``final_standbys``: as little as
possible away from where things are), then what may be done of it now. A copy that is not caught up is warmed up first,
and its previous owner runs on.

**Balance**, as KIP-441 defines it. *Instance balance* is met exactly: every process runs its even share of all active tasks by
threads, rounded down or up. *Subtopology balance*, taken literally, compares subtopologies: that on the most processes may be
on one more than that on the fewest. A subtopology of 3 tasks and one of 30 never satisfy this on 10 processes, and if one
put the 30 on 4 processes, they would. What the KIP wants ("spread the tasks for a subtopology evenly over the cluster") is read
per subtopology: each process has its even share of *its* tasks. It decides which task moves, and where to, among equally few
moves; it never moves a task of its own, for then a table that is balanced otherwise would not come to rest (property 5).

**What is promised**: active tasks run on the most caught-up processes only (property 1). Over all rounds as few tasks change
their owner as any balanced end allows, stateless ones counted like all others. An orphan that only one process can run now, and
that has to move on later, counts once. Of all balanced ends that cost so few changes each decision aims at one with the fewest new
owners without any copy, then the least *spread* (1 + 2 + ... + n for n tasks of a subtopology that a process has outside of its
share), then the fewest offsets to restore. A copy that lacks less than ``acceptable_recovery_lag`` may run its task
at once, but the offsets that it lacks still count: where the whole state of a task is that small, every process may run
it, and the process that has the state on its disk gets it. ``exchanges`` makes that exact. Copies that are made
meanwhile may change what is cheapest at the next decision; the number of changes stays. Process ids break ties by
their order, so renaming that keeps the
order renames the plan, and no number of owner changes depends on names.

**Standbys** stay where they are, and are spread so that when any one process is lost, its tasks fall to the others as evenly
as balance wants it: see ``StandbyCells`` for that, and for what is given up where it would cost too much. That comes first, and
then that columns are even. Few copies are made for that, not always the fewest: of the small
clusters without tags that were tried exhaustively, fewer than one in a hundred makes one more than it must.

**Racks**: with a rack-aware strategy traffic comes before movement, each at its cost, and the spread of subtopologies counts only as
``balance_subtopology`` bounds it: see ``rack_owners``.

**Warm-ups**: one budget, ``max_warmup_replicas``; active tasks first, and of each kind those that have begun, then the
smallest lag. While a task has fewer caught-up standbys than it should, the copy to warm up is a standby and needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from kstreams_assign.assign.final_owners import final_owners
from kstreams_assign.assign.holdings import NOBODY, Holdings
from kstreams_assign.assign.racks import why_not_rack_aware
from kstreams_assign.assign.standby_spread import final_standbys
from kstreams_assign.assign.values import AssignConfig, Cluster, Placement, Plan
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId


def least_movement(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide. Raises ``ConfigError`` when a client has no lag for a stateful task."""
    return _decided(Holdings(cluster, config.acceptable_recovery_lag), cluster, config)


def least_movement_by_rank(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide as version 1: offsets to restore count only where a copy is not caught up.

    So tasks whose whole state is within ``acceptable_recovery_lag`` pass their copies by.
    """
    return _decided(Holdings(cluster, config.acceptable_recovery_lag, by_rank=True), cluster, config)


def _decided(held: Holdings, cluster: Cluster, config: AssignConfig) -> Plan:
    owners, standbys = _final(held, cluster, config)
    return Stage(held, owners, standbys).plan(config.max_warmup_replicas)


def _final(held: Holdings, cluster: Cluster, config: AssignConfig) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """The owners and the standbys to be reached in the end."""
    if why_not_rack_aware(cluster, config):
        owners = final_owners(held)
        return owners, final_standbys(held, owners, config)
    from kstreams_assign.assign.rack_owners import RackOwners  # a solver that few groups need

    racks = RackOwners(held, cluster, config)
    owners = racks.owners()
    return owners, racks.standbys(owners, final_standbys(held, owners, config))


class Stage:
    """What is done of the goal now."""

    def __init__(self, held: Holdings, owners: Sequence[int], standbys: Sequence[Sequence[int]]) -> None:
        self.held, self.owners, self.standbys = held, owners, standbys
        self.running = self._running_now()
        self.copies: list[Sequence[int]] = list(standbys)
        self.wishes: list[tuple[bool, bool, int, int, int]] = []
        self.outstanding = False
        for task, (owner, now, goal, told) in enumerate(zip(owners, self.running, standbys, held.told, strict=False)):
            if now == owner and not goal:
                continue
            if now != owner or len(told) > 1 + len(goal):
                self._stage(task, goal)
                continue
            for client in told:
                if client != owner and client not in goal:
                    self._stage(task, goal)
                    break

    def _running_now(self) -> list[int]:
        """The final owner where it is most caught up, else the previous one, else the least loaded that is."""
        running = list(self.owners)
        waiting = []
        for task, (owner, told) in enumerate(zip(running, self.held.told, strict=True)):
            if told and told.get(owner) != RUNNING_OFFSET_SUM and not self.held.may_run(task, owner):
                before = self.held.owner[task]
                running[task] = before if before != NOBODY and self.held.may_run(task, before) else NOBODY
                if running[task] == NOBODY:
                    waiting.append(task)
        if waiting:
            self._run_somewhere(waiting, running)
        return running

    def _run_somewhere(self, waiting: list[int], running: list[int]) -> None:
        load = [0] * len(self.held.clients)
        for owner in running:
            if owner != NOBODY:
                load[owner] += 1
        for task in waiting:
            best = self.held.most_caught_up(task) or range(len(load))
            running[task] = min(best, key=lambda client: (load[client] / self.held.capacity[client], client))
            load[running[task]] += 1

    def _stage(self, task: int, goal: Sequence[int]) -> None:
        """Standbys now: the most caught up, of those the final ones. A final one that is not among them wishes to warm up."""
        now, owner, told = self.running[task], self.owners[task], self.held.told[task]
        rank_of, cold = self.held.rank_of, self.held.cold[task]
        ranked = [
            (rank_of(lag), one != owner and one not in goal, one != owner, lag, one)
            for one, lag in told.items()
            if one != now
        ]
        ranked += [(cold, False, one != owner, 0, one) for one in (owner, *goal) if one not in told and one != now]
        ranked.sort()
        self.copies[task] = [one for *_, one in ranked[: len(goal)]]
        missing = [entry for entry in ranked[len(goal) :] if not entry[1]]
        self.outstanding |= owner != now or bool(missing)
        self.wishes += [(second, one not in told, rank, task, one) for rank, _, second, _, one in missing]

    def plan(self, max_warmup_replicas: int) -> Plan:
        """In the words of the outside."""
        active: list[list[TaskId]] = [[] for _ in self.held.clients]
        standby: list[list[TaskId]] = [[] for _ in self.held.clients]
        warmup: list[list[TaskId]] = [[] for _ in self.held.clients]
        for task, client in zip(self.held.tasks, self.running, strict=True):
            active[client].append(task)
        for task, clients in zip(self.held.tasks, self.copies, strict=False):
            for client in clients:
                standby[client].append(task)
        for *_, number, client in nsmallest(max_warmup_replicas, self.wishes):
            warmup[client].append(self.held.tasks[number])
        placed = zip(self.held.clients, active, standby, warmup, strict=True)
        return Plan(
            {client.process_id: Placement(*map(frozenset, tasks)) for client, *tasks in placed}, self.outstanding
        )
