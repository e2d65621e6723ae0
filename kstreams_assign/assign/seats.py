"""Seats for active tasks: even shares by threads, and as many tasks as possible where they may run at once.

A matching of tasks with clients, in integers. Which tasks stay and which leave is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kstreams_assign.assign.previous_state import NO_CLIENT
from kstreams_assign.assign.shares import even_shares


class OpenSeats:
    """How many tasks each client may still take so that all end with their share, between ``low`` and ``high``.

    A client takes its share rounded down. The rest are ``spare`` seats, at most one for a client whose share is not an
    integer.
    """

    def __init__(self, tasks: int, low: Sequence[int], high: Sequence[int]) -> None:
        self.low, self.high = low, high
        self.spare = tasks - sum(low)
        self.count = [0] * len(low)

    @classmethod
    def even(cls, tasks: int, capacity: Sequence[int]) -> OpenSeats:
        """Return even shares of this many tasks by threads."""
        shares = even_shares(tasks, capacity)
        return cls(tasks, [low for low, _ in shares], [high for _, high in shares])

    def seats(self, client: int) -> int:
        """Return the client's open seats without spare ones."""
        return max(0, self.low[client] - self.count[client])

    def may_round_up(self, client: int) -> bool:
        return self.spare > 0 and self.low[client] <= self.count[client] < self.high[client]

    def is_open(self, client: int) -> bool:
        return self.count[client] < self.low[client] or self.may_round_up(client)

    def take(self, client: int) -> None:
        self.spare -= self.count[client] >= self.low[client]
        self.count[client] += 1


class Matching:
    """Seats tasks only at clients where they may run; finds a seat whenever other tasks can be shifted to free one.

    It uses augmenting paths with clients as nodes. Where a search fails, no later one can succeed, so those clients
    are ``full``.
    """

    def __init__(self, room: OpenSeats, capacity: Sequence[int]) -> None:
        self.room = room
        self.capacity = capacity
        self.seated: list[dict[int, list[int]]] = [{} for _ in capacity]
        self.full = [False] * len(capacity)

    def seat(self, task: int, best: list[int], restore: Callable[[int, int], int] | None = None) -> bool:
        """Give the task a seat at a client of ``best``; return whether one of them is open.

        Of several open clients the task goes to the client that has the least to ``restore``.
        """
        free = [client for client in best if self.room.is_open(client)]
        if free and restore:
            offsets = [restore(task, client) for client in free]
            least = min(offsets)
            free = [client for client, own in zip(free, offsets, strict=True) if own == least]
        if free:
            self.put(task, min(free, key=self._preference), best)
            return True
        return self._augment(task, [client for client in best if not self.full[client]], best)

    def put(self, task: int, client: int, best: list[int]) -> None:
        """Seat the task on an open seat of this client, which is among its ``best``."""
        self.room.take(client)
        self.seated[client][task] = best

    def _preference(self, client: int) -> tuple[float, int]:
        return -self.room.seats(client) / self.capacity[client], client

    def _augment(self, task: int, start: list[int], best: list[int]) -> bool:
        came_from = dict.fromkeys(start, (NO_CLIENT, NO_CLIENT))
        queue = list(start)
        rounded = False
        for client in queue:  # grows while it is walked
            if self.room.is_open(client):
                self._shift(client, came_from, task, best)
                return True
            for other, options in self.seated[client].items():
                for goal in options:
                    if goal not in came_from and not self.full[goal]:
                        came_from[goal] = (client, other)
                        queue.append(goal)
            if not rounded and self.room.low[client] == self.room.count[client] < self.room.high[client]:
                rounded = True
                for goal in self._rounded_up():
                    if goal not in came_from and not self.full[goal]:
                        came_from[goal] = (client, NO_CLIENT)
                        queue.append(goal)
        for client in queue:
            self.full[client] = True
        return False

    def _rounded_up(self) -> list[int]:
        """Return clients with a spare seat that they could give away if one of their tasks moved elsewhere."""
        room = self.room
        return [client for client, seated in enumerate(self.seated) if seated and room.low[client] < room.count[client]]

    def _shift(self, client: int, came_from: dict[int, tuple[int, int]], task: int, best: list[int]) -> None:
        """Walk back: every task on the way moves on to the next client, and the new task takes the first seat."""
        room = self.room
        room.take(client)
        while came_from[client][0] != NO_CLIENT:
            before, moved = came_from[client]
            if moved == NO_CLIENT:  # the spare seat itself moves: one task less there, one more here
                room.count[client] -= 1
                room.count[before] += 1
            else:
                self.seated[client][moved] = self.seated[before].pop(moved)
            client = before
        self.seated[client][task] = best
