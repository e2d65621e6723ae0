"""Kafka's min-cost flow between tasks and clients, step for step, so that of equal optima it finds Java's (KIP-925).

Java (``Graph``) builds the whole graph, looks for a negative cycle by Bellman-Ford in ``nodes`` passes over all edges
in order, cancels it, and starts again. Here the same passes run over equal elements: a task has one edge in, from its
client, so only clients have distances; a client gives its tasks to all clients of a rack at the same cost, and the
first cheapest task stands for all. Passes that repeat an earlier one except for a constant are skipped.

Tasks belong to groups (subtopologies); ``min_traffic`` is one group. A *place* is a group at a client, in Java the
client's node of the first stage; its node of the second stage joins a client's places as far as ``room`` is left.
Distances are multiples of the number of tasks, so that distance and task fit one number. This module does not decide
which flow to solve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from kstreams_assign.assign.java.places import NEVER, Places

NO_TASK, SECOND_STAGE = -1, -2


class Passes:
    """One search for a negative cycle: the distances of places and second stages after each pass, with their parents.

    ``announced`` is the distance of a place that its tasks know: a place whose second stage shortens it announces that
    in the next pass.
    """

    def __init__(self, places: Places, part: Sequence[int]) -> None:
        self.places, self.part = places, part
        groups, clients = range(places.groups), places.clients
        self.near = [[0] * clients for _ in groups]
        self.announced = [[0] * clients for _ in groups]
        self.second = [0] * clients
        self.parent = [[NO_TASK] * clients for _ in groups]
        self.second_parent = [NO_TASK] * clients
        self.gifts = [list(zip(*gives, strict=True)) for gives in places.gives]
        self.links = {link for link in places.links() if link[0] in part}
        self.back = {
            client: [g for g in part if places.held[g][client]] for client in sorted({c for _, c in self.links})
        }
        self.crossed: set[tuple[int, int]] = set()
        self.news: list[int] = list(part)
        self.unannounced: set[int] = set()

    def go(self) -> bool:
        """Make one pass over all edges, from tasks, places and second stages; return whether any distance fell."""
        nearer = [(group, client) for group in self.news for client in self._from_tasks(group)]
        groups = self.unannounced | {group for group, _ in nearer}
        for group in groups:
            self.announced[group] = self.near[group].copy()
        self.news, self.unannounced = sorted(groups), set()
        for client in self._to_second_stages(nearer) if self.links else ():
            self._from_second_stage(client)
        return bool(groups)

    def _from_tasks(self, group: int) -> list[int]:
        """Return the clients whose place in the group came nearer by tasks with a new distance."""
        near, announced, parent = self.near[group], self.announced[group], self.parent[group]
        returns, number, nearer = self.places.returns[group], self.places.tasks, []
        best = [min(map(add, announced, gifts)) for gifts in self.gifts[group]]
        for client, rack in enumerate(self.places.problem.rack):
            key = best[rack]
            for other, stray in returns[client]:
                key = min(key, announced[other] + stray)
            if key < near[client]:
                parent[client] = task = key % number
                near[client] = key - task
                nearer.append(client)
        return nearer

    def _to_second_stages(self, nearer: Iterable[tuple[int, int]]) -> list[int]:
        """Return the clients whose second stage came nearer by these places, in order."""
        clients = set()
        for group, client in nearer:
            if (group, client) in self.links and self.near[group][client] < self.second[client]:
                self.second[client], self.second_parent[client] = self.near[group][client], group
                self.crossed.add((group, client))
                clients.add(client)
        return sorted(clients)

    def _from_second_stage(self, client: int) -> None:
        for group in self.back[client]:
            if self.second[client] < self.near[group][client]:
                self.near[group][client], self.parent[group][client] = self.second[client], SECOND_STAGE
                self.crossed.add((group, client))
                self.unannounced.add(group)

    def least(self) -> int:
        """Return the distance of the nearest task."""
        places = self.places
        return min(
            distance - paid * places.tasks
            for group in self.part
            for distance, paid, tasks in zip(self.announced[group], places.most[group], places.held[group], strict=True)
            if tasks
        )

    def snapshot(self) -> Snapshot:
        self.crossed.clear()
        return Snapshot([*map(list, self.near)], [*map(list, self.announced)], list(self.second))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Distances after a pass."""

    near: list[list[int]]
    announced: list[list[int]]
    second: list[int]

    def shifts(self, now: Passes) -> tuple[list[int], list[int]] | None:
        """Return how much nearer each group and second stage is now, if all later passes only repeat those since then.

        They do if each group moved uniformly, nothing moved faster than its nearest neighbour, and what crossed
        between groups moved equally: then every comparison of two distances has the same result as before.
        """
        shifts = [0] * len(self.near)
        for group in now.part:
            old, new, old_announced, new_announced = (
                self.near[group],
                now.near[group],
                self.announced[group],
                now.announced[group],
            )
            shift = new[0] - old[0]
            if any(b - a != shift for a, b in zip(old, new, strict=True)):
                return None
            if any(b - a != shift for a, b in zip(old_announced, new_announced, strict=True)):
                return None
            shifts[group] = shift
        second = [b - a for a, b in zip(self.second, now.second, strict=True)]
        if any(second[client] > shifts[group] for group, client in now.links):
            return None
        if any(shifts[group] > second[client] for client, groups in now.back.items() for group in groups):
            return None
        if any(shifts[group] != second[client] for group, client in now.crossed):
            return None
        return shifts, second


def turn_negative_cycles(places: Places) -> None:
    """Move tasks until no cycle lowers the total cost (``Graph.cancelNegativeCycles``).

    Only the part in which a cycle was cancelled is searched again.
    """
    searches: dict[tuple[int, ...], Search] = {}
    while True:
        searches = {part: searches.get(part) or _search(places, part) for part in places.parts()}
        nearest = min(search.nearest for search in searches.values())
        start = _last_pass(
            {g: search.passes for part, search in searches.items() if search.cyclic for g in part}, nearest
        )
        if start is None:
            return
        passes, group, client = start
        for task, to in _walk(passes, group, client):
            places.move(task, to)
        del searches[tuple(passes.part)]


class Search(NamedTuple):
    """Java's passes except the last over a part; ``nearest`` is its nearest task two passes before the end.

    ``cyclic``: distances still fall, so there is a negative cycle.
    """

    passes: Passes
    nearest: int
    cyclic: bool


def _search(places: Places, part: tuple[int, ...]) -> Search:
    passes = Passes(places, part)
    done, last = 0, places.nodes - 3
    anchor, next_anchor = passes.snapshot(), 1
    jumped = False
    while done < last:
        done += 1
        if not passes.go():
            return Search(passes, passes.least(), cyclic=False)
        if jumped:
            continue
        if shifts := anchor.shifts(passes):
            period = done - (next_anchor >> 1)
            times = (last - done) // period
            _jump(passes, shifts, times)
            done += times * period
            jumped = True
        elif done == next_anchor:
            anchor, next_anchor = passes.snapshot(), 2 * next_anchor
    nearest = passes.least()
    return Search(passes, nearest, cyclic=passes.go())


def _jump(passes: Passes, shifts: tuple[list[int], list[int]], times: int) -> None:
    groups, second = shifts
    for rows in (passes.near, passes.announced):
        for group, shift in enumerate(groups):
            rows[group] = [distance + shift * times for distance in rows[group]]
    passes.second = [distance + shift * times for distance, shift in zip(passes.second, second, strict=True)]


def _last_pass(cyclic: Mapping[int, Passes], nearest: int) -> tuple[Passes, int, int] | None:
    """Return the start of the walk: the place of the first edge, in Java's order, that still lowers a distance."""
    for group, passes in sorted(cyclic.items()):
        if group in passes.news and (client := _last_task(passes, group, nearest)) is not None:
            return passes, group, client
    return _last_crossing(cyclic)


def _last_task(passes: Passes, group: int, nearest: int) -> int | None:
    """Return the client of the first task of a group that lowers a distance, or the client whose distance it lowers."""
    places, near, announced = passes.places, passes.near[group], passes.announced[group]
    number, problem = places.tasks, places.problem
    farthest = [-NEVER] * places.racks
    for client, rack in enumerate(problem.rack):
        farthest[rack] = max(near[client], farthest[rack])
    for task in places.tasks_of[group]:
        distance = announced[places.at[task]] - places.price(task, places.at[task]) * number
        if distance < nearest:
            return places.at[task]
        row, home = problem.cost[task], problem.owner[task]
        if distance + row[problem.rack[home]] * number < near[home] or any(
            distance + (cost + problem.away) * number < far for cost, far in zip(row, farthest, strict=True)
        ):
            to = next(c for c in range(places.clients) if distance + places.price(task, c) * number < near[c])
            passes.parent[group][to] = task
            return to
    return None


def _last_crossing(cyclic: Mapping[int, Passes]) -> tuple[Passes, int, int] | None:
    """Do the same for edges from places, if no task lowers a distance, and then for edges from second stages."""
    for group, passes in sorted(cyclic.items()):
        for client, near in enumerate(passes.near[group]):
            if near < passes.announced[group][client] and passes.places.held[group][client]:
                return passes, group, client
            if near < passes.second[client] and (group, client) in passes.links:
                passes.second_parent[client] = group
                return passes, group, client
    backward = [
        (client, group) for group, passes in cyclic.items() for client, gs in passes.back.items() if group in gs
    ]
    for client, group in sorted(backward):
        passes = cyclic[group]
        if passes.second[client] < passes.near[group][client]:
            passes.parent[group][client] = SECOND_STAGE
            return passes, group, client
    return None


def _walk(passes: Passes, group: int, client: int) -> list[tuple[int, int]]:
    """Follow the parents back to a cycle, and once around it; return each task with its new client."""
    at = passes.places.at
    seen: dict[tuple[int, int], int] = {}
    steps: list[tuple[int, int]] = []
    while (group, client) not in seen:
        seen[group, client] = len(steps)
        task = passes.parent[group][client]
        if task == SECOND_STAGE:
            group = passes.second_parent[client]
        else:
            steps.append((task, client))
            client = at[task]
    return steps[seen[group, client] :]
