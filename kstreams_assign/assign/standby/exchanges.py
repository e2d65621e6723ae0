"""The cheapest layout of standbys: columns as even as possible, then the least to restore, then the best cells.

A minimum cost flow in integers, from tasks by way of cells and columns. ``Exchanges`` looks for a cycle of tasks, each
of which gives the place of a standby to the next, that lowers the total, until none exists (Klein's theorem: then the
total is minimal). ``settle`` makes the layout that it begins with; where that restores something, but no more than any
layout must, no cycle is looked for, even if cells could be better.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest

from kstreams_assign.assign.cycles import find_cycles
from kstreams_assign.assign.standby.table import StandbyTable

Arc = tuple[int, int]
"""(price, the node it leads to)."""

Cost = tuple[int, int, int]
"""How far columns are off their limits, the offsets to restore, how far cells are off: the smaller, the better."""

NO_COST: Cost = (0, 0, 0)


def lower_cost(table: StandbyTable) -> None:
    """Exchange standbys until no layout that is as even has less to restore, where that can be found."""
    if table.exact:
        uneven, restores, cells = cost(table)
        if uneven or (cells and not restores) or (restores > new_restores(table) and restores > least_restores(table)):
            Exchanges(table).settle()


def cost(table: StandbyTable) -> Cost:
    """Return the cost of a layout with one standby of each task."""
    limits = table.limits
    columns = sum(map(_off, table.column, limits.column_low, limits.column_high))
    restores = sum(table.held.rank(task, client) for task, (client,) in enumerate(table.copies))
    cells = sum(
        _off(table.count(owner, client), row.least[client], row.most[client])
        for owner, row in enumerate(limits.rows)
        for client in (range(len(table.column)) if table.tasks_of[owner] else ())
        if client != owner
    )
    return columns, restores, cells


def new_restores(table: StandbyTable) -> int:
    """Return the offsets to restore of the tasks that no client has a replica of: no layout saves them."""
    lags = table.held.reported_lags
    return sum(table.held.cold[task] for task in range(len(table.owners)) if not lags[task])


def least_restores(table: StandbyTable) -> int:
    """Return a lower bound of the offsets to restore: what the columns lack at least."""
    held, owners = table.held, table.owners
    warm, ready = [0] * len(table.column), held.ready
    for owner, reported in zip(owners, held.reported_lags, strict=False):
        for client, lag in reported.items():
            warm[client] += client != owner and ready(lag)
    total = 0
    for client, (low, has) in enumerate(zip(table.limits.column_low, warm, strict=True)):
        if has < low:
            prices = [held.rank(task, client) for task, owner in enumerate(owners) if owner != client]
            total += sum(nsmallest(low, prices))
    return total


class Exchanges:
    """The flow network. Its nodes are tasks, cells, columns, and a hub to which all columns lead.

    A replica too many arrives at a node and leaves it by an arc: from a task to a cell of its row, where it is placed;
    from a cell to a task that takes its own back, or on to its column; from a column to another cell, which gives one
    up, or to the hub, where it stays; from the hub to a column that gives one up.
    """

    def __init__(self, table: StandbyTable) -> None:
        self.table = table
        self.clients, self.tasks = len(table.column), len(table.owners)
        self.columns = self.tasks + self.clients * self.clients
        self.hub = self.columns + self.clients
        ranks = (table.held.rank_of(lag) for lags in table.held.reported_lags for lag in lags.values())
        dearest = max([0, *table.held.cold, *ranks])
        self.offset_price = 2 * self.tasks + 1
        self.column_price = (2 * self.tasks * dearest + 1) * self.offset_price
        self.placed: list[set[int]] = [set() for _ in range(self.clients * self.clients)]
        for task, (client,) in enumerate(table.copies):
            self.placed[self._cell(table.owners[task], client) - self.tasks].add(task)
        self.price = [0] * (self.hub + 1)
        self.changed = set(range(self.hub + 1))

    def settle(self) -> None:
        """Move standbys along cycles until none lowers the total."""
        while cycles := self._cheaper_cycles():
            for arcs in cycles:
                self._move({source: goal for source, goal, _ in arcs})
                self.changed.update(source for source, *_ in arcs)

    def _cell(self, owner: int, client: int) -> int:
        return self.tasks + owner * self.clients + client

    def _cheaper_cycles(self) -> list[list[tuple[int, int, int]]]:
        """Return cycles without a common node that lower the total; empty if there are none."""
        price, came = self.price, {}
        while self.changed:
            walk, self.changed = self.changed, set()
            for node in sorted(walk):
                base = price[node]
                for more, goal in self._arcs(node):
                    if base + more < price[goal]:
                        price[goal] = base + more
                        came[goal] = (node, 0)
                        self.changed.add(goal)
            if cycles := find_cycles(came, self.changed):
                return cycles
        return []

    def _arcs(self, node: int) -> Iterator[Arc]:
        """Yield the arcs out of a node that a replica has arrived at."""
        if node < self.tasks:
            return self._from_task(node)
        if node < self.columns:
            return self._from_cell(*divmod(node - self.tasks, self.clients))
        if node < self.hub:
            return self._from_column(node - self.columns)
        return self._from_hub()

    def _from_task(self, task: int) -> Iterator[Arc]:
        owner, copies = self.table.owners[task], self.table.copies[task]
        for client in range(self.clients):
            if client != owner and client not in copies:
                yield self._restore_price(task, client), self._cell(owner, client)

    def _from_cell(self, owner: int, client: int) -> Iterator[Arc]:
        cell = self._cell(owner, client)
        yield self._cell_price(owner, client, 1), self.columns + client
        yield from ((-self._restore_price(task, client), task) for task in sorted(self.placed[cell - self.tasks]))

    def _from_column(self, client: int) -> Iterator[Arc]:
        yield self._column_price(client, 1), self.hub
        for owner in range(self.clients):
            if self.table.count(owner, client):
                yield self._cell_price(owner, client, -1), self._cell(owner, client)

    def _from_hub(self) -> Iterator[Arc]:
        for client, count in enumerate(self.table.column):
            if count:
                yield self._column_price(client, -1), self.columns + client

    def _restore_price(self, task: int, client: int) -> int:
        return self.offset_price * self.table.held.rank(task, client)

    def _cell_price(self, owner: int, client: int, more: int) -> int:
        row, count = self.table.limits.rows[owner], self.table.count(owner, client)
        return _farther(count, more, row.least[client], row.most[client])

    def _column_price(self, client: int, more: int) -> int:
        limits = self.table.limits
        low, high = limits.column_low[client], limits.column_high[client]
        return self.column_price * _farther(self.table.column[client], more, low, high)

    def _move(self, goal_of: dict[int, int]) -> None:
        """Move the standby of each task on the cycle from the cell before it to the cell behind it."""
        before = {goal: source for source, goal in goal_of.items()}
        for task in [node for node in goal_of if node < self.tasks]:
            source, goal = before[task] - self.tasks, goal_of[task] - self.tasks
            self.table.shift(task, source % self.clients, goal % self.clients)
            self.placed[source].remove(task)
            self.placed[goal].add(task)


def _farther(count: int, more: int, low: int, high: int) -> int:
    """Return by how much ``more`` replicas, 1 or -1, bring the count farther from its limits."""
    return _off(count + more, low, high) - _off(count, low, high)


def _off(count: int, low: int, high: int) -> int:
    return max(low - count, count - high, 0)
