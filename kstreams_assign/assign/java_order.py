"""How Java orders and hashes ids and texts: topology first, texts by UTF-16 units, hashes of 32 bits.

The layouts that follow from it are in ``java.hash_table`` and ``java.heap``.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kstreams_assign.model import TaskId


def text_order(text: str) -> bytes:
    """Return the sort key of ``java.lang.String.compareTo``: UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def task_order(task: TaskId) -> tuple[bytes, int, int]:
    """Return the sort key of Kafka's ``TaskId.compareTo``: named topology, subtopology, partition."""
    return (b"" if task.topology is None else text_order(task.topology), task.subtopology, task.partition)


def sorted_tasks(tasks: Collection[TaskId]) -> list[TaskId]:
    """Return tasks in Kafka's order. Without named topologies that is the order of the tuples, which is faster."""
    if len(tasks) < 2:
        return list(tasks)
    if all(task[2] is None for task in tasks):
        return sorted(tasks)
    return sorted(tasks, key=task_order)


def text_hash(text: str) -> int:
    """Return ``java.lang.String.hashCode`` as an unsigned 32-bit number."""
    units = text_order(text)
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def task_hash(task: TaskId) -> int:
    """Return ``TaskId.hashCode`` as an unsigned 32-bit number."""
    named = 0 if task.topology is None else text_hash(task.topology)
    return (29791 + 961 * task.subtopology + 31 * task.partition + named) & 0xFFFFFFFF


def process_hash(process_id: UUID) -> int:
    """Return ``java.util.UUID.hashCode`` as an unsigned 32-bit number."""
    folded = (process_id.int >> 64) ^ (process_id.int & (2**64 - 1))
    return (folded >> 32) ^ (folded & 0xFFFFFFFF)
