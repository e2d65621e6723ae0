"""Evening out copies per thread between processes (Kafka: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads``).

One kind of copy moves, but the *total* load decides. Whether a client may take a task is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MayMove = Callable[[int, int], bool]
"""(source, destination) -> this kind of copy may go from one client to the other at all."""
Move = Callable[[int, int, int], bool]
"""(task, source, destination) -> the copy was moved; False when the destination has a copy already."""


def anywhere(source: int, destination: int) -> bool:  # noqa: ARG001 - a MayMove that allows all
    """Copies may move between any two clients."""
    return True


def balance_over_threads(
    held: Sequence[set[int]], count: Sequence[int], capacity: Sequence[int], may_move: MayMove, move: Move
) -> None:
    """Move copies, lower task ids first, until no single move evens out the load any more.

    ``held`` are the copies of the moving kind per client, ``count`` all copies. ``move`` keeps both.
    """
    threads = Threads(count, capacity)
    again = True
    while again:
        again = False
        for source in range(len(held)):
            if not threads.may_give(source):
                continue
            for destination in range(len(held)):
                if threads.improves(source, destination) and may_move(source, destination):
                    again |= _move_between(source, destination, held, threads, move)


def _move_between(source: int, destination: int, held: Sequence[set[int]], threads: Threads, move: Move) -> bool:
    moved = False
    for task in sorted(held[source]):
        if move(task, source, destination):
            threads.changed(source, destination)
            moved = True
            if not threads.improves(source, destination):
                break
    return moved


class Threads:
    """Loads before and after one more or one less copy.

    A move evens out the load when the source, with one copy less, has at least the load of the destination with one
    more. Java asks the same in two subtractions.
    """

    def __init__(self, count: Sequence[int], capacity: Sequence[int]) -> None:
        self.count, self.capacity = count, capacity
        self.with_one_more = [(have + 1) / threads for have, threads in zip(count, capacity, strict=True)]
        self.least = min(self.with_one_more, default=0.0)

    def improves(self, source: int, destination: int) -> bool:
        return (self.count[source] - 1) / self.capacity[source] >= self.with_one_more[destination]

    def may_give(self, source: int) -> bool:
        """Whether any client would take a copy from this one."""
        return (self.count[source] - 1) / self.capacity[source] >= self.least

    def changed(self, *clients: int) -> None:
        for client in clients:
            self.with_one_more[client] = (self.count[client] + 1) / self.capacity[client]
        self.least = min(self.with_one_more)
