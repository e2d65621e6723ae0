"""What it costs that a client runs a task in the end, and what a layout costs at least. Who is to run it is decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

from kstreams_assign.assign.holdings import NOBODY, Holdings
from kstreams_assign.model import RUNNING_OFFSET_SUM


class Prices:
    """What a layout costs, as one number: owner changes, then new owners without a copy, then spread, then lags.

    Each weighs more than all that comes after it can add up to.
    """

    def __init__(self, held: Holdings) -> None:
        self.held = held
        tasks = len(held.tasks)
        self.spread = 1 + sum(max(cold, 1) for cold in held.cold_restore)
        self.no_copy = self.spread * (2 * tasks + 1) * (tasks + 1)
        self.change = self.no_copy * (tasks + 1)

    def grounds(self, task: int) -> tuple[object, ...]:
        """All that the prices of a task depend on."""
        held = self.held
        return held.owner[task], held.untold[task], *held.told[task].items()

    def of(self, task: int) -> tuple[dict[int, int], int]:
        """The price on each client that is special, and on all others."""
        held, change = self.held, self.change
        lags, cold, owner = held.told[task], held.cold_restore[task], held.owner[task]
        copies = {client: self._copy(held.restore_of(lag), cold) for client, lag in lags.items()}
        others = self.no_copy + cold if cold else 0
        if owner != NOBODY and held.may_run(task, owner):
            prices = {client: change + price for client, price in copies.items()}
            prices[owner] = min(held.restore(task, owner), max(cold, 1))
            return prices, change + others
        # a client that may not run the task yet takes it over from one that may: a change
        least = held.least_rank(task)
        prices = {client: price + change * (held.rank(task, client) > least) for client, price in copies.items()}
        return prices, others + change * (held.cold[task] > least)

    def least_leaving(self, task: int, goals: set[int]) -> int:
        """What it costs at least that the task leaves its owner, which may run it, for one of the goals."""
        held = self.held
        lags, cold, owner = held.told[task], held.cold_restore[task], held.owner[task]
        best = self.change + (self.no_copy + cold if cold else 0)
        if not goals.isdisjoint(lags):
            special = lags.keys() & goals
            costs = [self.change + self._copy(held.restore_of(lags[client]), cold) for client in special]
            best = min(costs) if len(special) == len(goals) else min(best, *costs)
        return best if lags.get(owner) == RUNNING_OFFSET_SUM else best - held.restore(task, owner)

    def leaving(self, task: int, client: int) -> int:
        """What it costs that the task leaves its owner, which may run it, for this client."""
        return self.least_leaving(task, {client})

    def excess(self, task: int, client: int, goals: set[int]) -> int:
        """How much more than on the best of the goals a task costs on this client that no owner may keep."""
        held, lags = self.held, self.held.told[task]
        least = min(map(held.restore_of, lags.values()), default=0)
        if not lags or (held.restore(task, client) <= least and held.may_run(task, client)):
            return 0
        prices, others = self.of(task)
        special = prices.keys() & goals
        best = min((prices[goal] for goal in special), default=others)
        return prices.get(client, others) - (best if len(special) == len(goals) else min(best, others))

    def _copy(self, restore: int, cold: int) -> int:
        useless = max(cold, 1)
        return restore if restore < useless else self.no_copy + useless


class Surplus(NamedTuple):
    """Of the tasks ``staying`` at each client so many ``must`` and ``may`` leave it; ``optional`` of those that need not must."""

    staying: Sequence[Sequence[int]]
    must: Sequence[int]
    may: Sequence[int]
    optional: int


def least_cost(prices: Prices, leavers: Surplus, goals: set[int]) -> int:
    """No layout with the fewest changes costs less: every leaver goes to its best goal, as if that had seats for all.

    And those leave for which that is cheapest. What subtopologies cost is not counted.
    """
    total, rest = 0, []
    for tasks, must, may in zip(leavers.staying, leavers.must, leavers.may, strict=True):
        if must or (may and leavers.optional):
            costs = nsmallest(must + 1, (prices.least_leaving(task, goals) for task in tasks))
            total += sum(costs[:must])
            rest += costs[must:may]
    return total + sum(nsmallest(leavers.optional, rest))
