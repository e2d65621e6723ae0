"""The owner that each task shall have in the end, by load instead of by number.

Tasks stay where they are. A task that no process may keep goes to the lowest of the most caught-up ones. Then tasks
move, one at a time, from the process of the highest level to that of the lowest, while ``load_balance`` allows it. The
number of tasks of a process does not count, nor does the spread of subtopologies, and there may be more changes of
owner than balance by number needs.

**It comes to rest** with constant loads, in whatever order the moves are made. No process both gives and takes in one
decision. So when any of the moves is made, the source is at least as high, and the goal at most as high, as when the
move was chosen: each lowers the higher of two levels, and the levels in falling order become smaller with every move.
A move that had to be left out, because its process gives as well as takes, is made by the next decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kstreams_assign.assign.load_balance import GAIN_MIN, Levels, Loads, weigh
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.model import RUNNING_OFFSET_SUM

BANDS = GAIN_MIN
"""Moves whose result differs by less than this part of the mean level are alike; then the warmest replica counts."""

Price = tuple[bool, int, int]
"""(not caught up there, offsets to restore, the task negated)."""


class OwnersByLoad(NamedTuple):
    """The final owners, and whether the next decision will find more to move."""

    owners: list[int]
    unsettled: bool


def owners_by_load(held: PreviousState, loads: Loads) -> OwnersByLoad:
    """Return the client that shall run each task."""
    weights = weigh(held.tasks, loads)
    owners = _settled_owners(held, weights)
    if not owners:
        return OwnersByLoad(owners, False)
    levels = Levels(weights, held.capacity, owners)
    Moves(held, owners, levels).make()
    return OwnersByLoad(owners, levels.may_improve(owners))


def _settled_owners(held: PreviousState, weights: list[int]) -> list[int]:
    """Return the owners of tasks that stay, and of the others the lowest client that may run them, heaviest first."""
    owners = list(held.owner)
    sums = [0] * len(held.clients)
    loose = []
    for task, (owner, reported) in enumerate(zip(held.owner, held.reported_lags, strict=True)):
        if reported.get(owner) == RUNNING_OFFSET_SUM or held.may_keep(task):
            sums[owner] += weights[task]
        else:
            loose.append(task)
    clients = range(len(held.clients))
    for task in sorted(loose, key=lambda task: (-weights[task], task)):
        best = (held.most_caught_up(task) if held.reported_lags[task] else None) or clients
        owner = min(best, key=lambda c: ((sums[c] + weights[task]) / held.capacity[c], held.restore(task, c), c))
        owners[task] = owner
        sums[owner] += weights[task]
    return owners


class Moves:
    """The moves of one decision. ``owners`` and ``levels`` are changed as they are made."""

    def __init__(self, held: PreviousState, owners: list[int], levels: Levels) -> None:
        self.held, self.owners, self.levels = held, owners, levels
        self.givers: set[int] = set()
        self.tasks_of: list[list[int]] = [[] for _ in held.clients]
        for task, owner in enumerate(owners):
            self.tasks_of[owner].append(task)
        self.offers: dict[tuple[int, int], dict[int, list[Price]]] = {}

    def make(self) -> None:
        """Move tasks until no process may give one. A process that cannot give a task now cannot do so later."""
        sources = {client for client, tasks in enumerate(self.tasks_of) if tasks}
        while sources:
            source = max(sources, key=lambda client: (self.levels.of(client), -client))
            goal = self._give(source)
            sources.discard(source if goal is None else goal)

    def _goals(self, source: int) -> list[int]:
        """Return the lowest client of each number of threads that may take, the lowest first."""
        lowest: dict[int, tuple[float, int]] = {}
        for client, threads in enumerate(self.held.capacity):
            if client != source and client not in self.givers:
                entry = (self.levels.of(client), client)
                lowest[threads] = min(entry, lowest.get(threads, entry))
        return [client for _, client in sorted(lowest.values())]

    def _give(self, source: int) -> int | None:
        """Move the task that evens out best, and of those that do it alike the warmest; return its goal, if any.

        Of goals that are alike in this, too, the one that is lowest with the task gets it.
        """
        levels = self.levels
        band = BANDS * levels.mean
        best = min(
            (
                (int(levels.after(weight, source, goal) / band), *price[:2], levels.of(goal, weight), price[2], goal)
                for goal in self._goals(source)
                for weight, price in self._offered(source, goal, levels.room(source, goal))
            ),
            default=None,
        )
        if best is None:
            return None
        *_, last, goal = best
        levels.move(-last, source, goal)
        self.owners[-last] = goal
        self.givers.add(source)
        return goal

    def _offered(self, source: int, goal: int, room: float) -> Iterator[tuple[int, Price]]:
        """Yield each weight of the source's tasks that has room, with the task of it that is warmest at the goal."""
        if room < 1:
            return
        if (source, goal) not in self.offers:
            self.offers[source, goal] = self._by_weight(self.tasks_of[source], goal)
        for weight, prices in self.offers[source, goal].items():
            if weight > room:
                continue
            while prices and self.owners[-prices[-1][2]] != source:
                prices.pop()
            if prices:
                yield weight, prices[-1]

    def _by_weight(self, tasks: Iterable[int], goal: int) -> dict[int, list[Price]]:
        held = self.held
        by_weight: dict[int, list[Price]] = {}
        for task in tasks:
            price = (not held.may_run(task, goal), held.restore(task, goal), -task)
            by_weight.setdefault(self.levels.weights[task], []).append(price)
        for prices in by_weight.values():
            prices.sort(reverse=True)
        return by_weight
