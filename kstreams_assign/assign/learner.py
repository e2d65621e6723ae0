"""The learner assignor: a task moves once its new owner has learned it (the first draft of KIP-441).

Each task that is to move has exactly one learner, a warm-up on its destination, and is marked as *being learned* on
its owner. When the next rebalance begins, owners give up these tasks before they join, so that a learner that is ready
takes over in the same rebalance; if it is not ready, the owner gets the task back. No other task is revoked in vain.

Beside a ``Plan``, members send and receive one ``LearnerMarks`` each. Standbys stay where the state is, most caught up
first, and are not balanced; a standby on the destination already is a learner. ``max_warmup_replicas`` bounds the
learners of a group, which the draft does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kstreams_assign.assign.balance import Owners
from kstreams_assign.assign.java.lag_table import LagTable
from kstreams_assign.assign.java.plan_table import NO_CLIENT, PlanTable
from kstreams_assign.assign.java.standbys import LeastLoaded
from kstreams_assign.assign.java.sticky import clients_by_task, seat_tasks
from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import rank
from kstreams_assign.assign.shares import Seats
from kstreams_assign.assign.should_rebalance import (
    Movement,
    is_available,
    known_rank,
    movements,
    propose_balanced,
    rank_candidates,
)
from kstreams_assign.assign.values import NO_TASKS, AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId, process_order


@dataclass(frozen=True, slots=True)
class LearnerMarks:
    """One member's tasks as the draft lists them: when it joins, and in the assignment that answers.

    ``assigned``: it runs them. ``revoked``: it ran them and gave them up because they are being learned. ``learning``:
    it is their learner.
    """

    assigned: frozenset[TaskId] = NO_TASKS
    revoked: frozenset[TaskId] = NO_TASKS
    learning: frozenset[TaskId] = NO_TASKS

    def __str__(self) -> str:
        texts = (
            f"{name}: [{', '.join(map(str, sorted_tasks(tasks)))}]"
            for name, tasks in (("assigned", self.assigned), ("revoked", self.revoked), ("learning", self.learning))
        )
        return f"({', '.join(texts)})"


NO_MARKS = LearnerMarks()
"""The marks of a process that joins for the first time: none."""


@dataclass(frozen=True, slots=True)
class LearnerPlan:
    """A decision of the learner assignor: the plan, each process's marks, and which of its tasks are being learned."""

    plan: Plan
    marks: Mapping[UUID, LearnerMarks]
    being_learned: Mapping[UUID, frozenset[TaskId]]


def learner(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide for members that send no marks: each runs what it ran, and learns what it has state of."""
    marks = {
        client.process_id: LearnerMarks(client.prev_active, NO_TASKS, client.prev_standby) for client in cluster.clients
    }
    return learn(cluster, config, marks).plan


def revoke_being_learned(marks: LearnerMarks, being_learned: frozenset[TaskId]) -> LearnerMarks:
    """Return a member's marks at the start of a rebalance: it gives up what is being learned elsewhere."""
    given_up = marks.assigned & being_learned
    return LearnerMarks(marks.assigned - given_up, given_up, marks.learning)


def learn(cluster: Cluster, config: AssignConfig, joined: Mapping[UUID, LearnerMarks]) -> LearnerPlan:
    """Decide. ``joined`` has the marks that members sent; a process without marks is new.

    Raises ``ConfigError`` when a client has no lag for a stateful task.
    """
    candidates = rank_candidates(cluster, config)
    owners = _owners(cluster, config, joined)
    begun = {(task, process) for process, marks in joined.items() for task in marks.learning}
    target = propose_balanced(candidates, cluster.capacities, owners, begun=begun)
    wanted = movements(owners, target)
    owners |= {move.task: move.destination for move in wanted if is_available(move, candidates)}
    waiting = [move for move in wanted if not is_available(move, candidates)]
    waiting.sort(key=lambda move: (move.task, move.destination) not in begun)
    table = _lay_out(cluster, config, owners, waiting)
    _give_stateless(table, joined, target)
    plan = table.plan(probing=bool(waiting))
    return LearnerPlan(plan, _marks(plan, joined), _being_learned(plan, waiting))


def _owners(cluster: Cluster, config: AssignConfig, joined: Mapping[UUID, LearnerMarks]) -> dict[TaskId, UUID]:
    """Return each stateful task's owner for now: the former owner, or the least loaded of more caught-up clients."""
    former = _former_owners(joined)
    table = PlanTable(cluster)
    lags = LagTable(table, config.acceptable_recovery_lag)
    client_of = {client.process_id: number for number, client in enumerate(table.clients)}
    for number, task in enumerate(table.tasks):
        owner = client_of.get(former[task]) if task in former else None
        if owner is not None and rank(lags.lag(number, owner), lags.acceptable) == _least_rank(lags, number):
            table.give_active(number, owner)
    for number in range(len(table.tasks)):
        if table.owner[number] == NO_CLIENT:
            least = _least_rank(lags, number)
            best = [client for client in lags.clients if rank(lags.lag(number, client), lags.acceptable) == least]
            table.give_active(number, min(best, key=lambda client: table.count[client] / table.capacity[client]))
    return {task: table.clients[table.owner[number]].process_id for number, task in enumerate(table.tasks)}


def _least_rank(lags: LagTable, task: int) -> int:
    reported = lags.reported_lags[task]
    unreported = [lags.unreported_lag[task]] if len(reported) < len(lags.clients) else []
    return rank(min([*reported.values(), *unreported]), lags.acceptable)


def _former_owners(joined: Mapping[UUID, LearnerMarks]) -> dict[TaskId, UUID]:
    """Return the process that ran each task, revoked or not; of several claims the first counts."""
    former: dict[TaskId, UUID] = {}
    for process in sorted(joined, key=process_order):
        for task in joined[process].assigned:
            former.setdefault(task, process)
    for process in sorted(joined, key=process_order):
        for task in joined[process].revoked:
            former.setdefault(task, process)
    return former


def _lay_out(cluster: Cluster, config: AssignConfig, owners: Owners, waiting: Sequence[Movement]) -> PlanTable:
    """Place actives, then standbys, then a learner for each waiting movement whose destination has no replica yet."""
    table = PlanTable(cluster)
    client_of = {client.process_id: number for number, client in enumerate(table.clients)}
    task_of = {task: number for number, task in enumerate(table.tasks)}
    for number, task in enumerate(table.tasks):
        table.give_active(number, client_of[owners[task]])
    learners = {task_of[move.task]: client_of[move.destination] for move in waiting}
    wanted = min(config.num_standby_replicas, len(table.clients) - 1)
    if wanted > 0:
        _keep_standbys(table, config, learners, wanted)
        _fill_up_standbys(table, wanted)
    budget = config.max_warmup_replicas
    for number, client in learners.items():
        if client not in table.holders[number] and budget > 0:
            table.give_warmup(number, client)
            budget -= 1
    return table


def _keep_standbys(table: PlanTable, config: AssignConfig, learners: Mapping[int, int], wanted: int) -> None:
    """Keep standbys where state is, the most caught up first; the replica that a learner reads comes last."""
    holders = clients_by_task(client.prev_active | client.prev_standby for client in table.clients)
    for number, task in enumerate(table.tasks):

        def worth(client: int, number: int = number, task: TaskId = task) -> tuple[bool, int, float]:
            copy_rank = known_rank(table.clients[client].lags[task], config)
            return learners.get(number) == client, copy_rank, table.count[client] / table.capacity[client]

        warm = sorted((client for client in holders.get(task, ()) if client != table.owner[number]), key=worth)
        for client in warm[:wanted]:
            table.give_standby(number, client)


def _fill_up_standbys(table: PlanTable, wanted: int) -> None:
    queue = LeastLoaded(table)
    for number in range(len(table.tasks)):
        for _ in range(wanted - len(table.standbys(number))):
            queue.give_standby(number)


def _give_stateless(table: PlanTable, joined: Mapping[UUID, LearnerMarks], target: Owners) -> None:
    """Keep stateless tasks as far as the *target* of the stateful tasks leaves room, so they move only once."""
    client_of = {client.process_id: number for number, client in enumerate(table.clients)}
    tasks = frozenset(table.stateless)
    former = {task: client_of[process] for task, process in _former_owners(joined).items() if process in client_of}
    seats = Seats(len(tasks) + len(target), table.capacity, (client_of[process] for process in target.values()))
    owners = seat_tasks(tasks, seats, former, {})
    for number, task in enumerate(table.stateless):
        table.give_stateless(number, owners[task])


def _marks(plan: Plan, joined: Mapping[UUID, LearnerMarks]) -> dict[UUID, LearnerMarks]:
    """Return the marks that each process receives: a task that it gave up and did not get back stays revoked."""
    return {
        process: LearnerMarks(placed.active, joined.get(process, NO_MARKS).revoked - placed.active, placed.warmup)
        for process, placed in plan.placements.items()
    }


def _being_learned(plan: Plan, waiting: Sequence[Movement]) -> dict[UUID, frozenset[TaskId]]:
    """Return each process's tasks whose new owner has a replica that is not caught up yet."""
    learned = {move.task for move in waiting if move.task in plan.placements[move.destination].copies}
    return {process: placed.active & learned for process, placed in plan.placements.items()}
