"""Balance replicas per thread between processes (Kafka: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads``).

One kind of replica moves, but the *total* load decides. The caller decides whether a client may take a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MayMove = Callable[[int, int], bool]
"""(source, destination) -> whether this kind of replica may go from one client to the other."""
Move = Callable[[int, int, int], bool]
"""(task, source, destination) -> whether the replica was moved; False if the destination already has one."""


def anywhere(source: int, destination: int) -> bool:  # noqa: ARG001 - a MayMove that allows all
    """Allow any move between two clients."""
    return True


def balance_over_threads(
    held: Sequence[set[int]], count: Sequence[int], capacity: Sequence[int], may_move: MayMove, move: Move
) -> None:
    """Move replicas, lower task ids first, until no single move balances the load any better.

    ``held`` are the replicas of the moving kind per client, ``count`` all replicas. ``move`` updates both.
    """
    threads = Threads(count, capacity)
    has_moved = True
    while has_moved:
        has_moved = False
        for source in range(len(held)):
            if not threads.may_give(source):
                continue
            for destination in range(len(held)):
                if threads.improves(source, destination) and may_move(source, destination):
                    has_moved |= _move_between(source, destination, held, threads, move)


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
    """Loads before and after one replica more or less.

    A move improves the balance when the source, with one replica less, has at least the load of the destination with
    one more. Java asks the same in two subtractions.
    """

    def __init__(self, count: Sequence[int], capacity: Sequence[int]) -> None:
        self.count, self.capacity = count, capacity
        self.load_after_taking = [(have + 1) / threads for have, threads in zip(count, capacity, strict=True)]
        self.least = min(self.load_after_taking, default=0.0)

    def improves(self, source: int, destination: int) -> bool:
        return (self.count[source] - 1) / self.capacity[source] >= self.load_after_taking[destination]

    def may_give(self, source: int) -> bool:
        """Return whether any client would take a replica from this one."""
        return (self.count[source] - 1) / self.capacity[source] >= self.least

    def changed(self, *clients: int) -> None:
        for client in clients:
            self.load_after_taking[client] = (self.count[client] + 1) / self.capacity[client]
        self.least = min(self.load_after_taking)
