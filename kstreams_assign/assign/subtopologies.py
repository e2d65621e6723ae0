"""How the tasks of each subtopology are spread over clients, and what one more or one less does to that."""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.assign.shares import even_share
from kstreams_assign.model import TaskId


class Subtopologies:
    """Tasks of each subtopology per client, against the even share of that subtopology.

    Within the even share, rounded down or up, nothing is better or worse. Outside of it ``giving`` and ``taking`` say by how
    many tasks: negative is welcome, positive is not.
    """

    def __init__(self, tasks: Sequence[TaskId], capacity: Sequence[int]) -> None:
        names: dict[tuple[str | None, int], int] = {}
        self.of = [names.setdefault((task.topology, task.subtopology), len(names)) for task in tasks]
        sizes = [0] * len(names)
        for kind in self.of:
            sizes[kind] += 1
        total = sum(capacity)
        by_capacity = {threads: [even_share(size, threads, total) for size in sizes] for threads in set(capacity)}
        self.share = [by_capacity[threads] for threads in capacity]
        self.count = [[0] * len(names) for _ in capacity]

    def add(self, task: int, client: int) -> None:
        self.count[client][self.of[task]] += 1

    def remove(self, task: int, client: int) -> None:
        self.count[client][self.of[task]] -= 1

    def giving(self, task: int, client: int) -> int:
        """What it means for the spread that the client gives the task away."""
        kind = self.of[task]
        have, (low, high) = self.count[client][kind], self.share[client][kind]
        if have > high:
            return high - have
        return max(0, low - have + 1)

    def taking(self, task: int, client: int) -> int:
        """What it means for the spread that the client takes the task."""
        kind = self.of[task]
        have, (low, high) = self.count[client][kind], self.share[client][kind]
        if have < low:
            return have - low
        return max(0, have - high + 1)
