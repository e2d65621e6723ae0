"""The orders that Java's collections impose on a decision: sorted task ids, hash tables, ``PriorityQueue``.

Where Java breaks a tie by the layout of a hash table or of a binary heap, being equal to Java means having that layout.
Only such layouts live here. Ids and texts compare as Java compares them: topology first, texts by UTF-16 units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from kstreams_assign.model import TaskId

Item = TypeVar("Item")


def text_order(text: str) -> bytes:
    """The sort key of ``java.lang.String.compareTo``: UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def task_order(task: TaskId) -> tuple[bytes, int, int]:
    """The sort key of Kafka's ``TaskId.compareTo``: named topology, subtopology, partition."""
    return (b"" if task.topology is None else text_order(task.topology), task.subtopology, task.partition)


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


def hash_table_order(items: Sequence[Item], hash_of: Callable[[Item], int]) -> list[Item]:
    """Distinct items in the order in which a ``java.util.HashMap`` walks them after they were put in one by one."""
    size = 16
    while len(items) > size * 3 // 4:
        size *= 2
    return sorted(items, key=lambda item: spread(hash_of(item)) & (size - 1))


def spread(hashed: int) -> int:
    """``HashMap.hash``: the high half folded into the low one."""
    return hashed ^ (hashed >> 16)


class JavaPriorityQueue(Generic[Item]):
    """``java.util.PriorityQueue``, whose array layout decides between equals and is what iteration shows.

    ``key`` is asked at each comparison, so it may change while an item is inside, as in Java: the heap is then out of
    order until that item is removed and offered again.
    """

    __slots__ = ("array", "key")

    def __init__(self, key: Callable[[Item], Any], items: Iterable[Item] = ()) -> None:
        self.key = key
        self.array = list(items)
        for index in range(len(self.array) // 2 - 1, -1, -1):
            self._sift_down(index, self.array[index])

    def __bool__(self) -> bool:
        return bool(self.array)

    def offer(self, item: Item) -> None:
        self.array.append(item)
        self._sift_up(len(self.array) - 1, item)

    def poll(self) -> Item:
        """The head. Raises ``IndexError`` when the queue is empty."""
        head, last = self.array[0], self.array.pop()
        if self.array:
            self._sift_down(0, last)
        return head

    def remove(self, item: Item) -> None:
        """Take one item out from wherever it stands. Raises ``ValueError`` when it is not inside."""
        index = self.array.index(item)
        moved = self.array.pop()
        if index == len(self.array):
            return
        self._sift_down(index, moved)
        if self.array[index] is moved:
            self._sift_up(index, moved)

    def _sift_up(self, index: int, item: Item) -> None:
        array, key = self.array, self.key
        mine = key(item)
        while index:
            parent = (index - 1) >> 1
            if mine >= key(array[parent]):
                break
            array[index] = array[parent]
            index = parent
        array[index] = item

    def _sift_down(self, index: int, item: Item) -> None:
        array, key = self.array, self.key
        mine, size = key(item), len(array)
        while (child := 2 * index + 1) < size:
            if child + 1 < size and key(array[child + 1]) < key(array[child]):
                child += 1
            if mine <= key(array[child]):
                break
            array[index] = array[child]
            index = child
        array[index] = item
