"""The price of running a task on a client in the end, and the least price of a layout. Owners are chosen elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.model import RUNNING_OFFSET_SUM


class Prices:
    """The price of a layout as one number: owner changes, then new owners without a replica, then spread, then lags.

    Each weighs more than all that follow it can add up to.
    """

    def __init__(self, held: PreviousState) -> None:
        self.held = held
        tasks = len(held.tasks)
        self.spread = 1 + sum(max(cold, 1) for cold in held.cold_restore)
        self.no_copy = self.spread * (2 * tasks + 1) * (tasks + 1)
        self.change = self.no_copy * (tasks + 1)

    def grounds(self, task: int) -> tuple[object, ...]:
        """Return everything that the prices of a task depend on."""
        held = self.held
        return held.owner[task], held.unreported_lag[task], *held.reported_lags[task].items()

    def of(self, task: int) -> tuple[dict[int, int], int]:
        """Return the price on each client with a special price, and the price on all others."""
        held, change = self.held, self.change
        lags, cold, owner = held.reported_lags[task], held.cold_restore[task], held.owner[task]
        copies = {client: self._copy(held.restore_of(lag), cold) for client, lag in lags.items()}
        others = self.no_copy + cold if cold else 0
        if held.may_keep(task):
            prices = {client: change + price for client, price in copies.items()}
            prices[owner] = min(held.restore(task, owner), max(cold, 1))
            return prices, change + others
        # a client that may not run the task yet takes it over from one that may: a change
        least = held.least_rank(task)
        prices = {client: price + change * (held.rank(task, client) > least) for client, price in copies.items()}
        return prices, others + change * (held.cold[task] > least)

    def least_leaving(self, task: int, goals: set[int]) -> int:
        """Return the least price for the task to leave its owner, which may run it, for one of the goals."""
        held = self.held
        lags, cold, owner = held.reported_lags[task], held.cold_restore[task], held.owner[task]
        best = self.change + (self.no_copy + cold if cold else 0)
        if not goals.isdisjoint(lags):
            special = lags.keys() & goals
            costs = [self.change + self._copy(held.restore_of(lags[client]), cold) for client in special]
            best = min(costs) if len(special) == len(goals) else min(best, *costs)
        return best if lags.get(owner) == RUNNING_OFFSET_SUM else best - held.restore(task, owner)

    def leaving(self, task: int, client: int) -> int:
        """Return the price for the task to leave its owner, which may run it, for this client."""
        return self.least_leaving(task, {client})

    def excess(self, task: int, client: int, goals: set[int]) -> int:
        """Return how much more a task that no owner may keep costs on this client than on the best of the goals."""
        held, lags = self.held, self.held.reported_lags[task]
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
    """How many tasks ``staying`` at each client ``must`` leave it, how many ``may``, and how many of these in all must.

    The last number is ``optional``.
    """

    staying: Sequence[Sequence[int]]
    must: Sequence[int]
    may: Sequence[int]
    optional: int


def least_cost(prices: Prices, leavers: Surplus, goals: set[int]) -> int:
    """Return a lower bound of the price of layouts with the fewest changes.

    Every leaver goes to its best goal, as if that had seats for all, and the cheapest tasks leave. The price of the
    spread is not counted.
    """
    total, rest = 0, []
    for tasks, must, may in zip(leavers.staying, leavers.must, leavers.may, strict=True):
        if must or (may and leavers.optional):
            costs = nsmallest(must + 1, (prices.least_leaving(task, goals) for task in tasks))
            total += sum(costs[:must])
            rest += costs[must:may]
    return total + sum(nsmallest(leavers.optional, rest))
