"""``java.util.PriorityQueue`` with its array layout, which decides between equals and is visible by iteration.

Python's ``heapq`` pushes exactly as Java offers. It pops differently, which leaves the same array only while the heap
is in order and no two keys are equal; so Java's own sift-down is implemented here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappush
from operator import le
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class JavaPriorityQueue(Generic[Item]):
    """A queue over a key, built like ``new PriorityQueue<>(collection)``: the items' order counts."""

    __slots__ = ("array", "key")

    def __init__(self, key: Callable[[Item], Any], items: Iterable[Item] = ()) -> None:
        self.key = key
        self.array = [(key(item), item) for item in items]
        for index in range(len(self.array) // 2 - 1, -1, -1):
            sift_down(self.array, index, self.array[index])

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items in array order."""
        return (item for _, item in self.array)

    def poll(self) -> Item:
        """Remove and return the head. Raises ``IndexError`` when the queue is empty."""
        item: Item = poll(self.array)[1]
        return item

    def remove(self, item: Item) -> None:
        """Remove an item from any position. Raises ``ValueError`` when it is not in the queue."""
        remove(self.array, self.array.index((self.key(item), item)))


class Rider:
    """A tuple element beside a key. All riders are equal, so that only the keys are compared."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rider)

    __hash__ = None  # type: ignore[assignment]


def poll_order(keys: Sequence[int]) -> list[int]:
    """Return the order in which items offered in turn come out, as indices. Only equal keys need Java's heap."""
    if len(set(keys)) == len(keys):
        return sorted(range(len(keys)), key=keys.__getitem__)
    heap: list[tuple[int, Rider]] = []
    for index, key in enumerate(keys):
        heappush(heap, (key, Rider(index)))
    return [poll(heap)[1].index for _ in keys]


def in_order(heap: Sequence[Any]) -> bool:
    """Return whether no parent is greater than its child."""
    return all(map(le, heap, heap[1::2])) and all(map(le, heap, heap[2::2]))


def poll(heap: list[Any]) -> Any:
    """Remove and return the head, as ``PriorityQueue.poll``."""
    head, last = heap[0], heap.pop()
    if heap:
        sift_down(heap, 0, last)
    return head


def remove(heap: list[Any], index: int) -> None:
    """Remove the item at an index, as ``PriorityQueue.removeAt``."""
    moved = heap.pop()
    if index == len(heap):
        return
    if sift_down(heap, index, moved) == index:
        sift_up(heap, index, moved)


def sift_up(heap: list[Any], index: int, item: Any) -> None:
    """Move an item up from an index until its parent is not greater."""
    while index:
        parent = (index - 1) >> 1
        if item >= heap[parent]:
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = item


def sift_down(heap: list[Any], index: int, item: Any) -> int:
    """Move an item down from an index until no child is less; return its final index."""
    size = len(heap)
    while (child := 2 * index + 1) < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if item <= heap[child]:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = item
    return index
