"""A table of standbys while they are being placed. It can be read by row, by column and by task.

It counts and knows bounds only. ``fill`` makes the first layout, ``settle`` moves standbys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.standby.limits import StandbyLimits
from kstreams_assign.assign.standby.tag_spread import TagSpread

PLACES_MAX = 8_000
"""Tasks times clients up to which the cheapest layout is looked for: it takes milliseconds. Beyond, moves are few."""

CELL_PART = 10
"""A cell that is off by one costs as much as this part of the restore of an average task."""


class StandbyTable:
    """Rows are the clients that shall run tasks (``owners``), columns the clients that shall hold their standbys.

    ``cell[row][column]`` and ``column`` count what is in ``copies``. ``tags`` is set if standbys are spread over tags.
    ``rows``: the rows that a move has to respect. ``exact``: the cheapest layout can be found, for it is one standby a
    task, without tags, in a group of usual size. ``cell_price``: the offsets that may be restored to bring a cell
    nearer to its limits by one. Small differences in size are then no reason for tasks that have to move after a loss.
    """

    def __init__(self, held: PreviousState, owners: Sequence[int], wanted: int, tags: TagSpread | None) -> None:
        self.held, self.wanted, self.tags = held, wanted, tags
        self.owners = owners[: held.stateful]
        self.tasks_of: list[list[int]] = [[] for _ in held.clients]
        for task, owner in enumerate(self.owners):
            self.tasks_of[owner].append(task)
        running = [len(tasks) for tasks in self.tasks_of]
        for owner in owners[held.stateful :]:
            running[owner] += 1
        stateful = [len(tasks) for tasks in self.tasks_of]
        self.exact = wanted == 1 and tags is None and len(self.owners) * len(held.clients) <= PLACES_MAX
        self.limits = StandbyLimits(running, stateful, held.capacity, wanted, tags, rows_priced=self.exact)
        self.rows = self.limits.rows
        self.cell_price = max(1, sum(held.cold[: held.stateful]) // (CELL_PART * max(1, held.stateful)))
        self.copies: list[list[int]] = [[] for _ in self.owners]
        self.cell: list[dict[int, int]] = [{} for _ in held.clients]
        self.column = [0] * len(held.clients)

    def put(self, task: int, client: int) -> None:
        self.copies[task].append(client)
        row = self.cell[self.owners[task]]
        row[client] = row.get(client, 0) + 1
        self.column[client] += 1

    def drop(self, task: int, client: int) -> None:
        self.copies[task].remove(client)
        self.cell[self.owners[task]][client] -= 1
        self.column[client] -= 1

    def shift(self, task: int, source: int, goal: int) -> None:
        self.drop(task, source)
        self.put(task, goal)

    def count(self, owner: int, client: int) -> int:
        return self.cell[owner].get(client, 0)

    def lacks(self, owner: int) -> int:
        """Return how many standbys the tasks of a row still lack."""
        return sum(self.wanted - len(self.copies[task]) for task in self.tasks_of[owner])

    def fullness(self, client: int) -> float:
        """Return the column's difference from its share, per thread; negative while it lacks standbys."""
        return (self.column[client] - self.limits.share[client]) / self.held.capacity[client]

    def has_room(self, task: int, client: int) -> bool:
        """Return whether the task may have a replica there and the cell has room for it."""
        owner = self.owners[task]
        if self.count(owner, client) >= self.rows[owner].most[client]:
            return False
        return client != owner and client not in self.copies[task]

    def may_give(self, task: int, client: int) -> bool:
        """Return whether the cell may lose the task's replica there."""
        owner = self.owners[task]
        return self.cell[owner][client] > self.rows[owner].least[client]

    def may_shift(self, task: int, source: int, goal: int) -> bool:
        """Return whether the goal has room and is, by its tags, no worse a place than the source."""
        if not self.has_room(task, goal):
            return False
        if self.tags is None:
            return True
        owner, rest = self.owners[task], [client for client in self.copies[task] if client != source]
        return self.tags.clashes(owner, rest, goal) <= self.tags.clashes(owner, rest, source)

    def pays(self, task: int, source: int, goal: int) -> bool:
        """Return whether a move for the sake of a cell pays: where rows have a price, it adds less than that."""
        rank = self.held.rank
        return not self.limits.rows_priced or rank(task, goal) < rank(task, source) + self.cell_price

    def spare_holders(self, task: int) -> Iterator[int]:
        """Yield what each unused replica of the task has to restore."""
        used = (self.owners[task], *self.copies[task])
        return (
            self.held.restore_of(lag) for client, lag in self.held.reported_lags[task].items() if client not in used
        )

    def first_to_move(self, tasks: Iterable[int]) -> list[int]:
        """Sort the tasks: first those with an unused replica, then the least to restore, then the last."""
        lags, cold = self.held.reported_lags, self.held.cold_restore
        bound: list[int] = []
        free: list[tuple[int, int]] = []
        for task in tasks:
            if len(lags[task]) > len(self.copies[task]) + (self.owners[task] in lags[task]):
                free.append((min(self.spare_holders(task), default=cold[task]), -task))
            else:
                bound.append(task)
        bound.sort(reverse=True)
        bound.sort(key=cold.__getitem__)
        return [-last for _, last in sorted(free)] + bound
