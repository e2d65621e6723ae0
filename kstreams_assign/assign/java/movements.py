"""Move replicas to warmer processes, and warm up the colder ones (Kafka: ``TaskMovement``).

The balanced layout says where replicas *should* be. Where such a process is not caught up and a warmer process exists,
the warmer one gets the replica for now, and the intended process gets a warm-up while the budget lasts.
"""

from __future__ import annotations

from kstreams_assign.assign.java.clients_by_load import ClientsByLoad
from kstreams_assign.assign.java.heap import poll_order
from kstreams_assign.assign.java.lag_table import LagTable
from kstreams_assign.assign.java.plan_table import PlanTable


class WarmupBudget:
    """How many more warm-ups may be given: one budget for active and standby movements."""

    def __init__(self, max_warmup_replicas: int) -> None:
        self.left = max_warmup_replicas

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def move_actives(table: PlanTable, lags: LagTable, budget: WarmupBudget) -> int:
    """Put each active task on a caught-up client, or on the most caught-up one; return how many had to move."""
    wanted = [task for task, owner in enumerate(table.owner) if lags.colder(task, (owner,))]
    caught_up = {task: lags.caught_up_clients(task) for task in wanted}
    queue = ClientsByLoad(table)
    for task in sorted(wanted, key=lambda task: (len(caught_up[task]), task)):
        _move_active(table, lags, budget, queue, task, caught_up[task])
    return len(wanted)


def _move_active(
    table: PlanTable, lags: LagTable, budget: WarmupBudget, queue: ClientsByLoad, task: int, caught_up: set[int]
) -> None:
    destination = table.owner[task]
    source = queue.poll(caught_up & table.holders[task])
    if source is None:
        source = queue.poll(caught_up)
    if source is None:
        source = lags.warmest(task, (), before=destination)
    assert source is not None, "a movement is planned only if another client has a smaller lag"
    if source in table.holders[task]:
        table.swap_active(task, source)
    else:
        table.take_active(task)
        table.give_active(task, source)
        if budget.spend():
            table.give_warmup(task, destination)
    queue.offer_changed(source, destination)


def move_standbys(table: PlanTable, lags: LagTable, budget: WarmupBudget) -> int:
    """Put standbys on warmer clients without a replica; return how many moved. Warm-ups stay."""
    wanted = sorted(
        (client, task)
        for task, holders in enumerate(table.holders)
        for client in lags.colder(task, holders)
        if client != table.owner[task] and client not in table.warmups.get(task, ())
    )
    caught_up = {task: lags.caught_up_clients(task) for task in {task for _, task in wanted}}
    # Two standbys of one task tie, so the order is that of Java's queue
    order = poll_order([len(caught_up[task]) * len(table.tasks) + task for _, task in wanted])
    queue, moved = ClientsByLoad(table), 0
    for destination, task in map(wanted.__getitem__, order):
        moved += _move_standby(table, lags, budget, queue, task, destination, caught_up[task])
    return moved


def _move_standby(
    table: PlanTable,
    lags: LagTable,
    budget: WarmupBudget,
    queue: ClientsByLoad,
    task: int,
    destination: int,
    caught_up: set[int],
) -> bool:
    holders = table.holders[task]
    source = queue.poll(caught_up - holders)
    if source is None:
        source = lags.warmest(task, holders, before=destination)
    if source is None:
        return False
    table.take_standby(task, destination)
    table.give_standby(task, source)
    if budget.spend():
        table.give_warmup(task, destination)
    queue.offer_changed(source, destination)
    return True
