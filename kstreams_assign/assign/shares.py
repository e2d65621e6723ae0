"""Even shares of tasks by threads, and which clients have a seat left.

This module only counts; the assignors decide which task takes a seat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def even_shares(tasks: int, capacity: Sequence[int]) -> list[tuple[int, int]]:
    """Return each process's share of the tasks by its threads (``capacity``), rounded down and rounded up."""
    total = sum(capacity)
    by_threads = {threads: (tasks * threads // total, -(-tasks * threads // total)) for threads in set(capacity)}
    return [by_threads[threads] for threads in capacity]


class Seats:
    """How many active tasks each client may still take; clients are numbers.

    A client has as many seats as its share rounded down. The rest are ``spare`` seats, at most one for a client whose
    share is not an integer. While there is a thread for every task, each thread is a seat.
    """

    def __init__(self, tasks: int, capacity: Sequence[int], taken: Iterable[int] = ()) -> None:
        """Read ``taken``, one client number for each seat that is taken already."""
        seats = max(tasks, sum(capacity))
        shares = even_shares(seats, capacity)
        self.capacity = capacity
        self.count = [0] * len(capacity)
        self.low = [low for low, _ in shares]
        self.high = [high for _, high in shares]
        self.spare = seats - sum(self.low)
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
        """Return a client's sort key: fewest tasks per thread, more threads, order (Kafka: ``ClientState``)."""
        return self.count[client] / self.capacity[client], -self.capacity[client], client
