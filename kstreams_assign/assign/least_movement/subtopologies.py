"""How the tasks of each subtopology are spread over clients, and the effect of one task more or less."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kstreams_assign.assign.previous_state import NO_CLIENT
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.model import TaskId


class Subtopologies:
    """Tasks of each subtopology per client, compared with the even share of that subtopology.

    Within the even share, rounded down or up, nothing is better or worse. Outside it, ``giving`` and ``taking`` return
    the difference in tasks: negative is better, positive is worse.
    """

    def __init__(self, tasks: Sequence[TaskId], capacity: Sequence[int]) -> None:
        """Read ``tasks``, which must be grouped by subtopology."""
        self.of: list[int] = []
        self.size: list[int] = []
        for _, group in groupby(tasks, key=lambda task: (task[2], task[0])):
            size = len(list(group))
            self.of += [len(self.size)] * size
            self.size.append(size)
        by_kind = [even_shares(size, capacity) for size in self.size]
        self.share = [[shares[client] for shares in by_kind] for client in range(len(capacity))]
        self.count = [[0] * len(self.size) for _ in capacity]

    def add_all(self, owners: Sequence[int]) -> None:
        count = self.count
        for kind, owner in zip(self.of, owners, strict=True):
            if owner != NO_CLIENT:
                count[owner][kind] += 1

    def add(self, task: int, client: int) -> None:
        self.count[client][self.of[task]] += 1

    def remove(self, task: int, client: int) -> None:
        self.count[client][self.of[task]] -= 1

    def are_even(self) -> bool:
        """Return whether every client has its even share of every subtopology."""
        return all(
            low <= have <= high
            for counts, shares in zip(self.count, self.share, strict=True)
            for have, (low, high) in zip(counts, shares, strict=True)
        )

    def lacking(self, kind: int, client: int) -> int:
        """Return how many tasks of the subtopology the client is below its even share."""
        return max(0, self.share[client][kind][0] - self.count[client][kind])

    def giving(self, kind: int, client: int) -> int:
        """Return the effect on the spread if the client gives a task of the subtopology away."""
        have, (low, high) = self.count[client][kind], self.share[client][kind]
        if have > high:
            return high - have
        return max(0, low - have + 1)

    def taking(self, kind: int, client: int) -> int:
        """Return the effect on the spread if the client takes a task of the subtopology."""
        have, (low, high) = self.count[client][kind], self.share[client][kind]
        if have < low:
            return have - low
        return max(0, have - high + 1)
