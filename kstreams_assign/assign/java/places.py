"""Which task is at which client while ``flow`` moves them, and the least cost of giving one away.

Tasks belong to groups (subtopologies). A *place* is a group at a client, in Java the client's node of the first stage.
Cost and task share one number: the cost times the number of tasks, plus the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = 1 << 200


@dataclass(frozen=True, slots=True)
class FlowProblem:
    """``owner`` and ``group`` per task in Java's order (groups in sequence), ``rack`` per client.

    ``cost[task][rack]`` is the task's cost in a rack; ``away`` is added on any client except its owner.
    """

    owner: Sequence[int]
    group: Sequence[int]
    rack: Sequence[int]
    cost: Sequence[Sequence[int]]
    away: int


class Places:
    """The client of each task, and the least cost of giving a task to another rack."""

    def __init__(self, problem: FlowProblem, at: Sequence[int], room: Sequence[Sequence[int]], nodes: int) -> None:
        self.problem, self.room, self.nodes = problem, room, nodes
        self.tasks, self.clients = len(at), len(problem.rack)
        self.groups = max(problem.group, default=-1) + 1
        self.racks = max(problem.rack, default=-1) + 1
        self.at = list(at)
        self.held: list[list[set[int]]] = [[set() for _ in problem.rack] for _ in range(self.groups)]
        self.strays: list[list[set[int]]] = [[set() for _ in problem.rack] for _ in range(self.groups)]
        for task, client in enumerate(at):
            self.held[problem.group[task]][client].add(task)
            if client != problem.owner[task]:
                self.strays[problem.group[task]][problem.owner[task]].add(task)
        self.tasks_of = [[t for t, each in enumerate(problem.group) if each == g] for g in range(self.groups)]
        nothing = [NEVER] * self.racks
        self.gives = [[nothing for _ in problem.rack] for _ in range(self.groups)]
        self.most = [[0 for _ in problem.rack] for _ in range(self.groups)]
        self.returns: list[list[list[tuple[int, int]]]] = [[[] for _ in problem.rack] for _ in range(self.groups)]
        for group in range(self.groups):
            for client in range(self.clients):
                self._look(group, client)
                self._look_home(group, client)

    def price(self, task: int, client: int) -> int:
        """Return what the task costs on this client."""
        problem = self.problem
        own = problem.cost[task][problem.rack[client]]
        return own if client == problem.owner[task] else own + problem.away

    def move(self, task: int, client: int) -> None:
        group, home, before = self.problem.group[task], self.problem.owner[task], self.at[task]
        self.held[group][before].remove(task)
        self.held[group][client].add(task)
        self.at[task] = client
        (self.strays[group][home].discard if client == home else self.strays[group][home].add)(task)
        self._look(group, before)
        self._look(group, client)
        self._look_home(group, home)

    def links(self) -> set[tuple[int, int]]:
        """Return places with room left: they lead to their client's second stage and from there to its other places."""
        return {
            (group, client)
            for group, room in enumerate(self.room)
            for client, most in enumerate(room)
            if len(self.held[group][client]) < most
        }

    def parts(self) -> list[tuple[int, ...]]:
        """Return sets of groups that lead to each other; parts do not affect each other."""
        links = self.links()
        part_of = {group: {group} for group in range(self.groups)}
        for client in {client for _, client in links}:
            joined = [g for g in range(self.groups) if self.held[g][client] or (g, client) in links]
            whole = set().union(*(part_of[group] for group in joined))
            part_of.update(dict.fromkeys(whole, whole))
        return sorted({tuple(sorted(part)) for part in part_of.values()})

    def _look(self, group: int, client: int) -> None:
        """Update the first cheapest gift to each rack, and the highest price that is paid here."""
        tasks, number = self.held[group][client], self.tasks
        away, cost, home_rack = self.problem.away, self.problem.cost, self.problem.rack[client]
        if not tasks:
            self.gives[group][client], self.most[group][client] = [NEVER] * self.racks, 0
            return
        gives = [NEVER] * self.racks
        most = 0
        for task in tasks:
            row = cost[task]
            paid = row[home_rack] if self.problem.owner[task] == client else row[home_rack] + away
            most = max(most, paid)
            for rack, other in enumerate(row):
                key = (other + away - paid) * number + task
                gives[rack] = min(gives[rack], key)
        self.gives[group][client], self.most[group][client] = gives, most

    def _look_home(self, group: int, home: int) -> None:
        """Update, per client, the first cheapest task that would return to this home client."""
        rack, cheapest = self.problem.rack[home], dict[int, int]()
        for task in self.strays[group][home]:
            key = (self.problem.cost[task][rack] - self.price(task, self.at[task])) * self.tasks + task
            cheapest[self.at[task]] = min(key, cheapest.get(self.at[task], NEVER))
        self.returns[group][home] = list(cheapest.items())
