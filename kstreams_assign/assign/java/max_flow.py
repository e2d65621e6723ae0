"""Java's first flow for ``balance_subtopology``: every task gets a client, by shortest augmenting paths (KIP-925).

Kafka's ``Graph.calculateMaxFlow`` with its breadth-first search in the order of node ids; costs play no part yet. A
task without a client leads to all places of its group, so only the first of each group is followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from kstreams_assign.assign.java.flow import NO_TASK

TASK, PLACE, SECOND = "task", "place", "second"
Node = tuple[str, int, int]
"""A task by group and number, a place by group and client, a client's second stage by 0 and client."""


class MaxFlow:
    """``group`` per task, in sequence; ``room[group][client]``; ``most`` tasks per client in total."""

    def __init__(self, group: Sequence[int], room: Sequence[Sequence[int]], most: Sequence[int]) -> None:
        self.group, self.room, self.most = group, room, most
        self.at = [NO_TASK] * len(group)
        self.held: list[list[set[int]]] = [[set() for _ in most] for _ in room]
        self.count = [0] * len(most)
        self.waiting: list[deque[int]] = [deque() for _ in room]
        for task, each in enumerate(group):
            self.waiting[each].append(task)

    def solve(self) -> list[int]:
        """Return the client of each task."""
        for _ in self.group:
            for task, client in self._shortest() or self._path():
                group = self.group[task]
                if self.at[task] == NO_TASK:
                    self.waiting[group].popleft()
                else:
                    self.held[group][self.at[task]].remove(task)
                    self.count[self.at[task]] -= 1
                self.count[client] += 1
                self.held[group][client].add(task)
                self.at[task] = client
        return self.at

    def _shortest(self) -> list[tuple[int, int]]:
        """Return the first client with room that a task without a client leads to directly, if any."""
        seen = set()
        for group, tasks in enumerate(self.waiting):
            for client, room in enumerate(self.room[group] if tasks else ()):
                if len(self.held[group][client]) < room and client not in seen:
                    if self.count[client] < self.most[client]:
                        return [(tasks[0], client)]
                    seen.add(client)
        return []

    def _path(self) -> list[tuple[int, int]]:
        """Return the moves after which one more task has a client. A path always exists, because the room suffices."""
        came: dict[Node, Node | None] = {
            (TASK, group, tasks[0]): None for group, tasks in enumerate(self.waiting) if tasks
        }
        queue = deque(came)
        while queue:
            node = queue.popleft()
            if node[0] == SECOND and self.count[node[2]] < self.most[node[2]]:
                break
            for following in self._leads_to(node):
                if following not in came:
                    came[following] = node
                    queue.append(following)
        moves = []
        step: Node | None = node
        while step:
            before = came[step]
            if before and before[0] == TASK:
                moves.append((before[2], step[2]))
            step = before
        return moves

    def _leads_to(self, node: Node) -> Iterable[Node]:
        kind, group, number = node
        if kind == TASK:
            return [(PLACE, group, client) for client in range(len(self.most)) if client != self.at[number]]
        if kind == SECOND:
            return [(PLACE, each, number) for each, held in enumerate(self.held) if held[number]]
        held = self.held[group][number]
        tasks: list[Node] = [(TASK, group, min(held))] if held and not self.waiting[group] else []
        return [*tasks, (SECOND, 0, number)] if len(held) < self.room[group][number] else tasks
