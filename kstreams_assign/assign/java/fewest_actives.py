"""Deal tasks to the client with the fewest active tasks per thread (Kafka: ``assignStatelessActiveTasks``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heapreplace

from kstreams_assign.assign.java.plan_table import PlanTable


def give_to_fewest_actives(table: PlanTable, tasks: Iterable[int], give: Callable[[int, int], None]) -> None:
    """Call ``give(task, client)`` for each task, in order, with the client that has the fewest actives per thread."""
    active, capacity = table.active_count, table.capacity
    heap = [(count / capacity[client], client) for client, count in enumerate(active)]
    heapify(heap)
    for task in tasks:
        client = heap[0][1]
        give(task, client)
        heapreplace(heap, (active[client] / capacity[client], client))
