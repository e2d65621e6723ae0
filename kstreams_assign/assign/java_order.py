"""The orders that Java's collections impose on a decision: sorted ids and texts, hash codes, hash tables.

Where Java breaks a tie by the layout of a hash table, being equal to Java means having that layout. Ids and texts compare
as Java compares them: topology first, texts by UTF-16 units. Heaps live in ``java_heap``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar
from uuid import UUID

from kstreams_assign.model import TaskId

Item = TypeVar("Item")


def text_order(text: str) -> bytes:
    """The sort key of ``java.lang.String.compareTo``: UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def task_order(task: TaskId) -> tuple[bytes, int, int]:
    """The sort key of Kafka's ``TaskId.compareTo``: named topology, subtopology, partition."""
    return (b"" if task.topology is None else text_order(task.topology), task.subtopology, task.partition)


def sorted_tasks(tasks: Collection[TaskId]) -> list[TaskId]:
    """Tasks in Kafka's order. Without named topologies that is the order of the tuples, which is quicker."""
    if all(task[2] is None for task in tasks):
        return sorted(tasks)
    return sorted(tasks, key=task_order)


def text_hash(text: str) -> int:
    """``java.lang.String.hashCode``, as an unsigned 32-bit number."""
    units = text_order(text)
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def task_hash(task: TaskId) -> int:
    """``TaskId.hashCode``, as an unsigned 32-bit number."""
    named = 0 if task.topology is None else text_hash(task.topology)
    return (29791 + 961 * task.subtopology + 31 * task.partition + named) & 0xFFFFFFFF


def process_hash(process_id: UUID) -> int:
    """``java.util.UUID.hashCode``, as an unsigned 32-bit number."""
    folded = (process_id.int >> 64) ^ (process_id.int & (2**64 - 1))
    return (folded >> 32) ^ (folded & 0xFFFFFFFF)


def spread(hashed: int) -> int:
    """``HashMap.hash``: the high half folded into the low one."""
    return hashed ^ (hashed >> 16)


def table_size(items: int) -> int:
    """Buckets of a hash table that grew to hold so many items."""
    size = 16
    while items > size * 3 // 4:
        size *= 2
    return size


def hash_table_order(items: Sequence[Item], hash_of: Callable[[Item], int]) -> list[Item]:
    """Distinct items in the order in which a ``java.util.HashMap`` walks them after they were put in one by one."""
    mask = table_size(len(items)) - 1
    return sorted(items, key=lambda item: spread(hash_of(item)) & mask)
