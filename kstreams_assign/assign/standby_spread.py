"""Which processes shall hold the standbys of each task in the end: sticky, and spread so that any one process may be lost.

Copies that are there stay. Missing ones go where cells and columns (``StandbyCells``) have room, and a copy moves only if that
brings a cell or a column nearer to its limits. So a spread that is good is left alone, and one that was made here is good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from kstreams_assign.assign.holdings import Holdings
from kstreams_assign.assign.standby_cells import StandbyCells


MayTake = Callable[[int, int], bool]


def final_standbys(held: Holdings, owners: Sequence[int], num_standby_replicas: int) -> list[list[int]]:
    """The clients that are to hold a standby of each stateful task, ``num_standby_replicas`` or all others."""
    clients = range(len(held.clients))
    if num_standby_replicas >= len(clients) - 1:
        return [[client for client in clients if client != owner] for owner in owners[: held.stateful]]
    if num_standby_replicas == 0:
        return [[] for _ in range(held.stateful)]
    spread = StandbySpread(held, owners, num_standby_replicas)
    spread.keep()
    spread.fill()
    spread.settle()
    return spread.copies


class StandbySpread:
    """The table of standbys while it is made. ``cell[row][column]`` and ``column`` count what ``copies`` has."""

    def __init__(self, held: Holdings, owners: Sequence[int], wanted: int) -> None:
        self.held, self.wanted = held, wanted
        self.owners = owners[: held.stateful]
        self.tasks_of: list[list[int]] = [[] for _ in held.clients]
        for task, owner in enumerate(self.owners):
            self.tasks_of[owner].append(task)
        running = [0] * len(held.clients)
        for owner in owners:
            running[owner] += 1
        self.limits = StandbyCells(running, [len(tasks) for tasks in self.tasks_of], held.capacity, wanted)
        self.copies: list[list[int]] = [[] for _ in self.owners]
        self.cell: list[dict[int, int]] = [{} for _ in held.clients]
        self.column = [0] * len(held.clients)

    def put(self, task: int, client: int) -> None:
        self.copies[task].append(client)
        row = self.cell[self.owners[task]]
        row[client] = row.get(client, 0) + 1
        self.column[client] += 1

    def shift(self, task: int, source: int, goal: int) -> None:
        self.copies[task].remove(source)
        self.cell[self.owners[task]][source] -= 1
        self.column[source] -= 1
        self.put(task, goal)

    def fullness(self, client: int) -> float:
        """How far the column is from its share, per thread; negative while it lacks standbys."""
        return (self.column[client] - self.limits.share[client]) / self.held.capacity[client]

    def has_room(self, task: int, client: int) -> bool:
        """Whether the task may have a copy there, and the cell room for it."""
        owner = self.owners[task]
        if client == owner or client in self.copies[task]:
            return False
        return self.cell[owner].get(client, 0) < self.limits.rows[owner].most[client]

    # ------------------------------------------------------------------ what is there

    def keep(self) -> None:
        """Every task keeps its copies; of too many the most caught up, and then those in columns with room."""
        choosing = []
        told, ready, wanted = self.held.told, self.held.ready, self.wanted
        for task, owner in enumerate(self.owners):
            others = told[task].keys() - (owner,)
            if others and (len(others) > wanted or not all(ready(told[task][client]) for client in others)):
                choosing.append(task)
                continue
            for client in others:
                self.put(task, client)
        for task in choosing:
            for _, _, _, client in sorted(self._candidates(task))[:wanted]:
                self.put(task, client)

    def _candidates(self, task: int) -> Iterator[tuple[int, bool, int, int]]:
        for rank, lag, client in self.held.holders(task, self.owners[task]):
            crowded = not self.has_room(task, client) or self.column[client] >= self.limits.column_high[client]
            yield rank, lag, crowded, client

    # ------------------------------------------------------------------ what is missing

    def fill(self) -> None:
        """Give every task all its standbys, row by row: first the cells that must have some, then the emptiest columns."""
        heap = [(self.fullness(client), client) for client in range(len(self.column))]
        heapify(heap)
        for owner, tasks in enumerate(self.tasks_of):
            lacking = deque(task for task in tasks if len(self.copies[task]) < self.wanted)
            if lacking:
                self._fill_due(owner, lacking)
                self._fill_row(owner, lacking, heap)
                self._fill_anyhow(lacking)

    def _fill_due(self, owner: int, lacking: deque[int]) -> None:
        row = self.limits.rows[owner]
        for client in row.due:
            while client != owner and self.cell[owner].get(client, 0) < row.least[client]:
                if not self._put_one(client, lacking):
                    break

    def _fill_row(self, owner: int, lacking: deque[int], heap: list[tuple[float, int]]) -> None:
        most, cell = self.limits.rows[owner].most, self.cell[owner]
        passed = []
        while lacking and heap:
            before, client = heappop(heap)
            now = self.fullness(client)
            if now != before:
                heappush(heap, (now, client))
            elif client != owner and cell.get(client, 0) < most[client] and self._put_one(client, lacking):
                heappush(heap, (self.fullness(client), client))
            else:
                passed.append((now, client))
        for entry in passed:
            heappush(heap, entry)

    def _put_one(self, client: int, lacking: deque[int]) -> bool:
        """Whether one of the tasks could take a standby on this client. The tasks take turns."""
        for _ in range(len(lacking)):
            task = lacking.popleft()
            if client in self.copies[task]:
                lacking.append(task)
                continue
            self.put(task, client)
            if len(self.copies[task]) < self.wanted:
                lacking.append(task)
            return True
        return False

    def _fill_anyhow(self, lacking: deque[int]) -> None:
        """With more standbys than cells have room for, the emptiest columns take the rest."""
        while lacking:
            task = lacking.popleft()
            free = [one for one in range(len(self.column)) if one != self.owners[task] and one not in self.copies[task]]
            self.put(task, min(free, key=lambda client: (self.fullness(client), client)))
            if len(self.copies[task]) < self.wanted:
                lacking.append(task)

    # ------------------------------------------------------------------ what is out of place

    def settle(self) -> None:
        """Move copies while that brings a cell or a column nearer to its limits. Each move does, so this ends."""
        moving = True
        while moving:
            moving = self._thin_cells() | self._feed_cells() | self._even_columns()

    def _thin_cells(self) -> bool:
        """Move copies out of cells that have too many."""
        moved = False
        for owner, row in enumerate(self.limits.rows):
            for client, count in list(self.cell[owner].items()):
                if count > row.most[client]:
                    moved |= self._thin(owner, client, count - row.most[client])
        return moved

    def _thin(self, owner: int, client: int, surplus: int) -> bool:
        moved = False
        for task in self._by_weight(self.tasks_of[owner]):
            if surplus and client in self.copies[task]:
                goals = [goal for goal in range(len(self.column)) if self.has_room(task, goal)]
                if goals:
                    self.shift(task, client, min(goals, key=lambda goal: self._goal_key(task, goal)))
                    surplus -= 1
                    moved = True
        return moved

    def _feed_cells(self) -> bool:
        """Move copies within a row to the cells that must have more."""
        moved = False
        for owner, row in enumerate(self.limits.rows):
            for client in row.due:
                while client != owner and self.cell[owner].get(client, 0) < row.least[client]:
                    found = min(self._donors(owner, client), default=None)
                    if found is None:
                        break
                    *_, task, source = found
                    self.shift(-task, source, client)
                    moved = True
        return moved

    def _donors(self, owner: int, goal: int) -> Iterator[tuple[bool, bool, tuple[int, int], float, int, int]]:
        """Copies of the row that may go to the client; first those of tasks it holds, then those with the least to restore."""
        least, cell = self.limits.rows[owner].least, self.cell[owner]
        for task in self.tasks_of[owner]:
            if goal in self.copies[task]:
                continue
            for source in self.copies[task]:
                if cell[source] > least[source]:
                    even = self.column[source] <= self.limits.column_high[source]
                    yield goal not in self.held.told[task], even, self._weight(task), -self.fullness(source), -task, source

    def _even_columns(self) -> bool:
        """Move copies from columns with more than the least to columns that lack some, or out of those with too many."""
        moved = False
        high, low = self.limits.column_high, self.limits.column_low
        order: list[int] = []
        while True:
            hungry = [client for client, have in enumerate(self.column) if have < low[client]]
            crowded = [client for client, have in enumerate(self.column) if have > high[client]]
            if not hungry and not crowded:
                return moved
            roomy = [client for client, have in enumerate(self.column) if have < high[client]]
            order = order or self._by_weight(range(len(self.owners)))
            if not self._sweep(order, hungry, roomy, self._holds) and not self._sweep(order, hungry, roomy, self.has_room):
                return moved
            moved = True

    def _sweep(self, order: Sequence[int], hungry: list[int], roomy: list[int], may_take: MayTake) -> bool:
        moved = False
        for task in order:
            for source in tuple(self.copies[task]):
                goals = self._better_columns(task, source, hungry, roomy)
                goal = min((one for one in goals if may_take(task, one)), key=lambda one: self._goal_key(task, one), default=None)
                if goal is not None:
                    self.shift(task, source, goal)
                    moved = True
        return moved

    def _holds(self, task: int, client: int) -> bool:
        return client in self.held.told[task] and self.has_room(task, client)

    def _better_columns(self, task: int, source: int, hungry: list[int], roomy: list[int]) -> Iterator[int]:
        """Where a copy of this column would make columns more even."""
        low, high = self.limits.column_low, self.limits.column_high
        have, owner = self.column[source], self.owners[task]
        if have > low[source] and self.cell[owner][source] > self.limits.rows[owner].least[source]:
            yield from (goal for goal in hungry if self.column[goal] < low[goal])
            if have > high[source]:
                yield from (goal for goal in roomy if self.column[goal] < high[goal])

    def _goal_key(self, task: int, goal: int) -> tuple[int, float, int]:
        """Clients with a copy first, then the emptiest columns."""
        return self.held.rank(task, goal), self.fullness(goal), goal

    def _by_weight(self, tasks: Sequence[int]) -> list[int]:
        return sorted(tasks, key=self._weight)

    def _weight(self, task: int) -> tuple[int, int]:
        """The least to restore first; then the last tasks, as with owners."""
        return self.held.rank_of(self.held.untold[task]), -task
