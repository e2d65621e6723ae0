"""Balance and its price: KIP-441's two conditions, owner changes, and the lower bound of owner changes.

Functions here judge finished plans. They place no task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from uuid import UUID

from kstreams_assign.assign.java_order import task_order
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.assign.values import Cluster, Plan
from kstreams_assign.model import TaskId

Owners = Mapping[TaskId, UUID]
"""Task -> the process that runs it."""

Subtopology = tuple[str | None, int]
"""Name of the topology (``None`` without named topologies) and number of the subtopology."""


def is_balanced(cluster: Cluster, plan: Plan) -> bool:
    """Return whether the active tasks meet both conditions of KIP-441, "Defining balance"."""
    return is_instance_balanced(plan.owners, cluster.capacities) and is_subtopology_balanced(plan.owners)


def is_instance_balanced(owners: Owners, capacities: Mapping[UUID, int]) -> bool:
    """Return whether every process runs its even share: with equal capacities, counts differ by one at most.

    With unequal capacities (threads) the even share is proportional to capacity, rounded down or up. ``capacities``
    must include the processes that run no task.
    """
    running = Counter(owners.values())
    shares = even_shares(len(owners), list(capacities.values()))
    return running.keys() <= capacities.keys() and all(
        low <= running[process] <= high for process, (low, high) in zip(capacities, shares, strict=True)
    )


def is_subtopology_balanced(owners: Owners) -> bool:
    """Return whether the numbers of processes that run each subtopology differ by one at most.

    This is KIP-441's literal text: subtopologies of very different size never satisfy it.
    """
    spread = subtopology_spread(owners).values()
    return not spread or max(spread) - min(spread) <= 1


def subtopology_spread(owners: Owners) -> dict[Subtopology, int]:
    """Return the number of processes that run each subtopology."""
    processes: dict[Subtopology, set[UUID]] = {}
    for task, process in owners.items():
        processes.setdefault((task.topology, task.subtopology), set()).add(process)
    return {subtopology: len(running) for subtopology, running in processes.items()}


def owner_changes(before: Owners, after: Owners, present: Collection[UUID]) -> tuple[list[TaskId], list[TaskId]]:
    """Return the tasks that changed their owner and the tasks that were adopted, each in order.

    Changed: another process runs the task although the old owner is still ``present``. Adopted: its owner has left, or
    it had none. A task that no process runs ``after`` counts as neither.
    """
    moved = sorted((task for task, owner in after.items() if before.get(task) != owner), key=task_order)
    changed = [task for task in moved if before.get(task) in present]
    adopted = [task for task in moved if before.get(task) not in present]
    return changed, adopted


def owner_changes_lower_bound(before: Owners, capacities: Mapping[UUID, int], tasks: Collection[TaskId]) -> int:
    """Return the fewest owner changes, of tasks whose owner is still present, that reach ``is_instance_balanced``.

    ``capacities`` holds the present processes, ``tasks`` the tasks to run; orphans and new tasks are placed freely.
    Each process gives away what exceeds its share. The shares that round up go to processes where they keep a task.
    """
    held = Counter(before[task] for task in tasks if before.get(task) in capacities)
    shares = even_shares(len(tasks), list(capacities.values()))
    spare = len(tasks) - sum(low for low, _ in shares)
    each = [(held[process], *share) for process, share in zip(capacities, shares, strict=True)]
    kept_by_rounding_up = sum(low < high and low < have for have, low, high in each)
    return sum(max(0, have - low) for have, low, _ in each) - min(spare, kept_by_rounding_up)
