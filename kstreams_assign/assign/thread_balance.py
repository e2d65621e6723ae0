"""Evening out copies per thread between processes (Kafka: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads``).

One kind of copy moves, but the *total* load decides. Whether a move is allowed is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MayHold = Callable[[int, int], bool]
"""(task, client) -> the client has no copy of the task yet."""
MayMove = Callable[[int, int], bool]
"""(source, destination) -> the kind of copy may go from one client to the other at all."""


def balance_over_threads(
    held: Sequence[set[int]],
    count: list[int],
    capacity: Sequence[int],
    moved: Callable[[int, int, int], None],
    may_hold: MayHold,
    may_move: MayMove,
) -> None:
    """Move copies between clients until no single move evens out the load any more.

    ``held`` are the copies of the moving kind per client, ``count`` all copies; both are updated, and
    ``moved(task, source, destination)`` is told each move. Lower task ids move first.
    """
    clients = range(len(held))
    again = len(set(capacity)) > 1 or max(count) - min(count) > 1
    while again:
        again = False
        for source in clients:
            for destination in clients:
                if improves(count, capacity, source, destination) and may_move(source, destination):
                    for task in sorted(held[source]):
                        if not may_hold(task, destination):
                            continue
                        held[source].discard(task)
                        held[destination].add(task)
                        count[source] -= 1
                        count[destination] += 1
                        moved(task, source, destination)
                        again = True
                        if not improves(count, capacity, source, destination):
                            break


def improves(count: Sequence[int], capacity: Sequence[int], source: int, destination: int) -> bool:
    """Whether one copy less at the source and one more at the destination makes their loads more equal."""
    skew = count[source] / capacity[source] - count[destination] / capacity[destination]
    if skew <= 0:
        return False
    after = (count[source] - 1.0) / capacity[source] - (count[destination] + 1.0) / capacity[destination]
    return 0 <= after < skew
