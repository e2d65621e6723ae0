"""Even shares of tasks by threads, and who still has a seat for one more.

Counting only: which task takes a seat is for the assignors to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def even_share(tasks: int, capacity: int, total: int) -> tuple[int, int]:
    """Of so many tasks the part of a process with ``capacity`` of ``total`` threads, rounded down and rounded up."""
    return tasks * capacity // total, -(-tasks * capacity // total)


class Seats:
    """How many active tasks each client may still take; clients are their numbers.

    A client has as many seats as its share rounded down; what rounding leaves over are ``spare`` seats, at most one for a
    client whose share is no whole number. While there is a thread for every task, each thread is a seat.
    """

    def __init__(self, tasks: int, capacity: Sequence[int], taken: Iterable[int] = ()) -> None:
        """``taken`` has one client number for each seat that is taken already."""
        total = sum(capacity)
        shares = [even_share(max(tasks, total), threads, total) for threads in capacity]
        self.capacity = capacity
        self.count = [0] * len(capacity)
        self.low = [low for low, _ in shares]
        self.high = [high for _, high in shares]
        self.spare = max(tasks, total) - sum(self.low)
        for client in taken:
            self.take(client)

    def below_share(self, client: int) -> bool:
        return self.count[client] < self.low[client]

    def has_room(self, client: int) -> bool:
        return self.below_share(client) or (self.spare > 0 and self.count[client] < self.high[client])

    def take(self, client: int) -> None:
        self.spare -= not self.below_share(client)
        self.count[client] += 1

    def load(self, client: int) -> tuple[float, int, int]:
        """Sorts clients: fewest tasks a thread first, then more threads, then in order (Kafka: ``ClientState``)."""
        return self.count[client] / self.capacity[client], -self.capacity[client], client
