"""The cheapest layout of standbys: columns as even as possible, then the least to restore and the best cells together.

A cell that is off its limits costs as much as a part of a restore (``StandbyTable.cell_price``).

A minimum cost flow in integers, from tasks by way of cells and columns. ``Exchanges`` looks for a cycle of moves, each
into the place that the next one leaves, that lowers the total, until none exists (Klein's theorem: then the total is
minimal). ``settle`` makes the layout that it begins with; where that costs no more than any layout must, no cycle is
looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from kstreams_assign.assign.cycles import Step, find_cycles
from kstreams_assign.assign.standby.table import StandbyTable

Arc = tuple[int, int, int]
"""(price, the task that moves along it or ``NO_TASK``, the node it leads to)."""

NO_TASK = -1

Cost = tuple[int, int]
"""How far columns are off their limits, and the offsets to restore with the price of cells: the smaller, the better."""

NO_COST: Cost = (0, 0)


def lower_cost(table: StandbyTable) -> None:
    """Exchange standbys until no layout that is as even costs less, where that can be found."""
    if table.exact:
        uneven, price = cost(table)
        if uneven or (price > new_restores(table) and price > least_restores(table)):
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
    return columns, restores + table.cell_price * cells


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
    """The flow network. Its nodes are cells, columns, and a hub to which all columns lead.

    A replica too many arrives at a node and leaves it by an arc: from a cell to another of its row, by the task for
    which that is cheapest, or on to its column; from a column to another cell, which gives one up, or to the hub, where
    it stays; from the hub to a column that gives one up.
    """

    def __init__(self, table: StandbyTable) -> None:
        self.table = table
        self.clients = len(table.column)
        self.columns = self.clients * self.clients
        self.hub = self.columns + self.clients
        ranks = (table.held.rank_of(lag) for lags in table.held.reported_lags for lag in lags.values())
        dearest = max([0, *table.held.cold, *ranks])
        self.column_price = 2 * len(table.owners) * (dearest + 2 * table.cell_price) + 1
        self.placed: list[set[int]] = [set() for _ in range(self.columns)]
        for task, (client,) in enumerate(table.copies):
            self.placed[self._cell(table.owners[task], client)].add(task)
        self.shifts = [self._list_shifts(cell) for cell in range(self.columns)]
        self.price = [0] * (self.hub + 1)
        self.changed = set(range(self.hub + 1))

    def settle(self) -> None:
        """Move standbys along cycles until none lowers the total."""
        while cycles := self._cheaper_cycles():
            for arcs in cycles:
                for source, goal, task in arcs:
                    if task != NO_TASK:
                        self._move(task, source, goal)
                for source, *_ in arcs:
                    self.changed.add(source)
                    if source < self.columns:
                        self.shifts[source] = self._list_shifts(source)

    def _cell(self, owner: int, client: int) -> int:
        return owner * self.clients + client

    def _list_shifts(self, cell: int) -> list[Arc]:
        """Return an arc to each other cell of the row: the task that gets there with the least to restore."""
        owner, client = divmod(cell, self.clients)
        rank, placed = self.table.held.rank, self.placed[cell]
        here = [(task, rank(task, client)) for task in placed]
        return [
            (*min((rank(task, goal) - now, task) for task, now in here), self._cell(owner, goal))
            for goal in range(self.clients)
            if here and goal not in (owner, client)
        ]

    def _cheaper_cycles(self) -> list[list[Step]]:
        """Return cycles without a common node that lower the total; empty if there are none."""
        price, came = self.price, {}
        while self.changed:
            walk, self.changed = self.changed, set()
            for node in sorted(walk):
                base = price[node]
                for more, task, goal in self._arcs(node):
                    if base + more < price[goal]:
                        price[goal] = base + more
                        came[goal] = (node, task)
                        self.changed.add(goal)
            if cycles := find_cycles(came, self.changed):
                return cycles
        return []

    def _arcs(self, node: int) -> Iterable[Arc]:
        """Return the arcs out of a node that a replica has arrived at."""
        if node < self.columns:
            owner, client = divmod(node, self.clients)
            return *self.shifts[node], (self._cell_price(owner, client, 1), NO_TASK, self.columns + client)
        if node < self.hub:
            return self._from_column(node - self.columns)
        return self._from_hub()

    def _from_column(self, client: int) -> Iterator[Arc]:
        yield self._column_price(client, 1), NO_TASK, self.hub
        for owner in range(self.clients):
            if self.table.count(owner, client):
                yield self._cell_price(owner, client, -1), NO_TASK, self._cell(owner, client)

    def _from_hub(self) -> Iterator[Arc]:
        for client, count in enumerate(self.table.column):
            if count:
                yield self._column_price(client, -1), NO_TASK, self.columns + client

    def _cell_price(self, owner: int, client: int, more: int) -> int:
        row, count = self.table.limits.rows[owner], self.table.count(owner, client)
        return self.table.cell_price * _farther(count, more, row.least[client], row.most[client])

    def _column_price(self, client: int, more: int) -> int:
        limits = self.table.limits
        low, high = limits.column_low[client], limits.column_high[client]
        return self.column_price * _farther(self.table.column[client], more, low, high)

    def _move(self, task: int, source: int, goal: int) -> None:
        self.table.shift(task, source % self.clients, goal % self.clients)
        self.placed[source].remove(task)
        self.placed[goal].add(task)


def _farther(count: int, more: int, low: int, high: int) -> int:
    """Return by how much ``more`` replicas, 1 or -1, bring the count farther from its limits."""
    return _off(count + more, low, high) - _off(count, low, high)


def _off(count: int, low: int, high: int) -> int:
    return max(low - count, count - high, 0)
