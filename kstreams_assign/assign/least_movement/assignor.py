"""Our assignor: KIP-441's six properties with the fewest owner changes that balance allows.

It plans backwards: first where every task and standby shall be in the end (``final_owners``, ``final_standbys``: with
the least change from the present), then which part of that is possible now. A replica that is not caught up is warmed
up first, and its previous owner goes on running the task.

**Balance**, as KIP-441 defines it. *Instance balance* is met exactly: every process runs its even share of all active
tasks by threads, rounded down or up. *Subtopology balance*, taken literally, compares subtopologies: the numbers of
processes that run them may differ by one at most. A subtopology of 3 tasks and one of 30 never satisfy this on 10
processes, unless the 30 run on only 4 processes. What the KIP intends ("spread the tasks for a subtopology evenly over
the cluster") is read per subtopology: each process has its even share of *its* tasks. It decides which task moves, and
where to, among equally few moves. It never causes a move alone, because then a table that is otherwise balanced would
not come to rest (property 5).

**Guarantees**: active tasks run only on the most caught-up processes (property 1). Over all rounds as few tasks change
their owner as any balanced end allows, stateless tasks counted like all others. An orphan that only one process can
run now, and that has to move on later, counts once. Of all balanced ends with so few changes, each decision aims at
one with the fewest new owners without a replica, then the least *spread* (1 + 2 + ... + n for n tasks of a subtopology
that a process has outside its share), then the fewest offsets to restore. A replica that lacks less than
``acceptable_recovery_lag`` may run its task at once, but its missing offsets still count: where the whole state of a
task is that small, every process may run it, and the process that has the state on its disk gets it. ``exchanges``
makes that exact. Replicas that are built meanwhile may change what is cheapest at the next decision; the number of
changes stays. Process ids break ties by their order, so renaming that keeps the order renames the plan, and no number
of owner changes depends on names.

**Restores**: an owner that has not caught up, while no other process has, protects no warm state. Its task goes to its
final owner at once, unless that would have it later; see ``restores``. An owner that is slower than another process
keeps its task unless it takes twice the time, so that a restore begins again only where that pays. In the same way a
standby that has not caught up is no reason to wait: the final one is restored at once, unless the present one needs
less than half as much.

**Standbys** stay where they are, and are spread so that each process has as many replicas as others. With one standby a
task and without tags, in groups of usual size, of all such layouts one with the least to restore is chosen
(``standby.exchanges``); a standby that lets a task move later when a process is lost counts as a tenth of a restore.
Otherwise such standbys are avoided as far as replicas stay even (``StandbyLimits``), and few replicas are made, but not
always the fewest.

**Loads**: with loads (``balance_by``) balance is that of ``by_load``, and the number of changes is not the least: only
property 1, and that it comes to rest, hold as they do by number. Standbys are placed by number. A rack-aware strategy
comes before loads.

**Racks**: with a rack-aware strategy traffic comes before movement, each at its cost, and the spread of subtopologies
counts only as far as ``balance_subtopology`` bounds it; see ``rack_owners``.

**Warm-ups**: one budget, ``max_warmup_replicas``; active tasks first, and of each kind those that have begun, then the
smallest lag. While a task has fewer caught-up standbys than it should, the replica to warm up is a standby and needs
no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest
from uuid import UUID

from kstreams_assign.assign.lags import KEPT_UP_TO
from kstreams_assign.assign.least_movement.by_load import owners_by_load
from kstreams_assign.assign.least_movement.final_owners import final_owners
from kstreams_assign.assign.least_movement.restores import least_loaded, send_back
from kstreams_assign.assign.previous_state import NO_CLIENT, PreviousState
from kstreams_assign.assign.racks import why_not_rack_aware
from kstreams_assign.assign.standby.spread import final_standbys
from kstreams_assign.assign.values import AssignConfig, Cluster, Placement, Plan
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId


def least_movement(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide, by load if the cluster has loads. Raises ``ConfigError`` when a client has no lag for a stateful task."""
    held = PreviousState(cluster, config.acceptable_recovery_lag)
    if not cluster.loads or not why_not_rack_aware(cluster, config):
        return Stage(held, *_final(held, cluster, config)).plan(config.max_warmup_replicas)
    owners, unsettled = owners_by_load(held, cluster.loads)
    plan = Stage(held, owners, final_standbys(held, owners, config)).plan(config.max_warmup_replicas)
    return replace(plan, probing=True) if unsettled else plan


def _final(
    held: PreviousState, cluster: Cluster, config: AssignConfig
) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """Return the owners and the standbys to be reached in the end."""
    if why_not_rack_aware(cluster, config):
        owners = final_owners(held)
        return owners, final_standbys(held, owners, config)
    from kstreams_assign.assign.least_movement.rack_owners import RackOwners  # a solver that few groups need

    racks = RackOwners(held, cluster, config)
    owners = racks.owners()
    return owners, racks.standbys(owners, final_standbys(held, owners, config))


class Stage:
    """The part of the goal that is possible now."""

    def __init__(self, held: PreviousState, owners: Sequence[int], standbys: Sequence[Sequence[int]]) -> None:
        self.held, self.owners, self.standbys = held, owners, standbys
        self.running = self._running_now()
        self.copies: list[Sequence[int]] = list(standbys)
        self.wishes: list[tuple[bool, bool, int, int, int]] = []
        self.outstanding = False
        for task, (owner, now, goal, reported) in enumerate(
            zip(owners, self.running, standbys, held.reported_lags, strict=False)
        ):
            if now == owner and not goal:
                continue
            if now != owner or len(reported) > 1 + len(goal):
                self._stage(task, goal)
                continue
            for client in reported:
                if client != owner and client not in goal:
                    self._stage(task, goal)
                    break

    def _running_now(self) -> list[int]:
        """Return the final owner where it may run now, else the previous owner, else the least loaded that may."""
        running = list(self.owners)
        waiting: list[int] = []
        moved: dict[int, int] = {}
        for task, (owner, reported) in enumerate(zip(running, self.held.reported_lags, strict=True)):
            if reported and reported.get(owner) != RUNNING_OFFSET_SUM and not self.held.may_run(task, owner):
                before = self.held.owner[task] if self.held.may_keep(task) else NO_CLIENT
                if self.held.restarts(task):
                    if before != owner:
                        moved[task] = before
                else:
                    running[task] = before
                    if before == NO_CLIENT:
                        waiting.append(task)
        if waiting or moved:
            self._run_now(waiting, moved, running)
        return running

    def _run_now(self, waiting: list[int], moved: dict[int, int], running: list[int]) -> None:
        """Settle the tasks that only a most caught-up client may run, and those that are restored wherever they run."""
        load = [0] * len(self.held.clients)
        for owner in running:
            if owner != NO_CLIENT:
                load[owner] += 1
        for task in waiting:
            running[task] = least_loaded(self.held, task, load)
            load[running[task]] += 1
        send_back(self.held, running, moved, load)

    def _stage(self, task: int, goal: Sequence[int]) -> None:
        """Choose standbys for now: the most caught up, final ones first. Other final standbys ask for a warm-up."""
        now, owner, reported = self.running[task], self.owners[task], self.held.reported_lags[task]
        rank_of, cold = self.held.rank_of, self.held.cold[task]
        # a replica in passing is worth a wait only if it takes less than half the time of the final one
        ranked = [
            (
                rank_of(lag) * (1 if client == owner or client in goal else KEPT_UP_TO),
                client != owner and client not in goal,
                client != owner,
                lag,
                client,
            )
            for client, lag in reported.items()
            if client != now
        ]
        ranked += [
            (cold, False, client != owner, 0, client)
            for client in (owner, *goal)
            if client not in reported and client != now
        ]
        ranked.sort()
        self.copies[task] = [client for *_, client in ranked[: len(goal)]]
        missing = [entry for entry in ranked[len(goal) :] if not entry[1]]
        self.outstanding |= owner != now or bool(missing)
        self.wishes += [(second, client not in reported, rank, task, client) for rank, _, second, _, client in missing]

    def plan(self, max_warmup_replicas: int) -> Plan:
        """Return the stage as a plan."""
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
            {client.process_id: Placement(*map(frozenset, tasks)) for client, *tasks in placed},
            self.outstanding,
            restores=self._restores(),
        )

    def _restores(self) -> dict[TaskId, UUID]:
        """Return the tasks that are not on a most caught-up client, each with the first of these."""
        held, restores = self.held, {}
        for task, now in enumerate(self.running):
            if held.reported_lags[task].get(now) != RUNNING_OFFSET_SUM and not held.may_run(task, now):
                restores[held.tasks[task]] = held.clients[(held.most_caught_up(task) or (0,))[0]].process_id
        return restores
