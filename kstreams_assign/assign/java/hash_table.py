"""The order in which a ``java.util.HashMap`` (or ``HashSet``) iterates its keys, where a decision depends on it.

Usually that is the order of buckets and, within a bucket, of insertion. But a bucket that gets its ninth key makes a
small table grow, and in a table of 64 buckets or more becomes a red-black tree whose root comes first. Task ids really
do that: their hash is ``31 * subtopology + partition``, so in nine subtopologies of 249 partitions nine tasks share a
hash. In these cases the table is built here as Java builds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from kstreams_assign.assign.java.tree_bin import Node, TreeBin

Key = TypeVar("Key", bound=Hashable)

SMALLEST_TABLE = 16
SMALLEST_TABLE_WITH_TREES = 64
LONGEST_LIST = 8
LARGEST_BIN_TO_UNTREE = 6


def walk_order(
    keys: Sequence[Key],
    hashes: Sequence[int],
    order_of: Callable[[Key], Any],
    removed: Collection[Key] = (),
    smallest: int = SMALLEST_TABLE,
) -> list[Key]:
    """Return the iteration order after ``keys`` were inserted in turn and those in ``removed`` deleted, in their order.

    ``hashes`` are the keys' ``spread`` hashes; ``order_of`` returns a sort key equal to ``compareTo``. ``smallest`` is
    the number of buckets of the empty table, a power of two (``first_table_size``).
    """
    if is_crowded(hashes, smallest):
        table = HashTable(smallest)
        nodes = {key: Node(key, hashed, order_of(key)) for key, hashed in zip(keys, hashes, strict=True)}
        for node in nodes.values():
            table.put(node)
        for key in removed:
            table.remove(nodes[key])
        return [node.key for node in table.walk()]
    mask = table_size(len(keys), smallest) - 1
    buckets = [hashed & mask for hashed in hashes]
    order = [keys[index] for index in sorted(range(len(keys)), key=buckets.__getitem__)]
    deleted = set(removed)
    return [key for key in order if key not in deleted] if deleted else order


def spread(hashed: int) -> int:
    """Return ``HashMap.hash`` of Java's 32-bit hash as an unsigned number: the high half folded into the low half."""
    return hashed ^ (hashed >> 16)


def first_table_size(capacity: int) -> int:
    """Return the number of buckets of ``new HashMap<>(capacity)``: the next power of two, at least one."""
    return 1 << max(0, capacity - 1).bit_length()


def table_size(keys: int, smallest: int = SMALLEST_TABLE) -> int:
    """Return the number of buckets of a table that grew to hold this many keys."""
    size = smallest
    while keys > size * 3 // 4:
        size *= 2
    return size


def is_crowded(hashes: Sequence[int], smallest: int = SMALLEST_TABLE) -> bool:
    """Return whether some bucket ever holds more keys than a list takes, while the table grows to hold all of them."""
    size = smallest
    while True:
        inside = hashes[: size * 3 // 4 + 1]
        if len(inside) <= LONGEST_LIST:
            return False
        buckets = [each & (size - 1) for each in inside]
        # a crowded bucket needs this many repeats; counting them is the slow part
        if len(buckets) - len(set(buckets)) >= LONGEST_LIST and max(Counter(buckets).values()) > LONGEST_LIST:
            return True
        if len(inside) == len(hashes):
            return False
        size *= 2


def may_crowd(hashes: Sequence[int]) -> bool:
    """Return whether a table of some of these keys can be crowded.

    Keys that share a bucket in any table share it in the smallest.
    """
    return max(Counter([each & (SMALLEST_TABLE - 1) for each in hashes]).values(), default=0) > LONGEST_LIST


class HashTable:
    """Buckets of nodes; a bucket is a list or a tree, and both know their iteration order."""

    def __init__(self, smallest: int = SMALLEST_TABLE) -> None:
        self.buckets: list[list[Node] | TreeBin] = [[] for _ in range(smallest)]
        self.size = 0

    def put(self, node: Node) -> None:
        """Insert a new key."""
        index = node.hashed & (len(self.buckets) - 1)
        bucket = self.buckets[index]
        if isinstance(bucket, TreeBin):
            bucket.insert(node)
        else:
            bucket.append(node)
            if len(bucket) > LONGEST_LIST:
                self._relieve(index, bucket)
        self.size += 1
        if self.size > len(self.buckets) * 3 // 4:
            self._grow()

    def _relieve(self, index: int, bucket: list[Node]) -> None:
        """Handle a list that became too long (``treeifyBin``)."""
        if len(self.buckets) < SMALLEST_TABLE_WITH_TREES:
            self._grow()
        else:
            self.buckets[index] = TreeBin(bucket)

    def _grow(self) -> None:
        old = self.buckets
        self.buckets = [[] for _ in range(2 * len(old))]
        for index, bucket in enumerate(old):
            low: list[Node] = []
            high: list[Node] = []
            for node in bucket:
                (high if node.hashed & len(old) else low).append(node)
            self.buckets[index] = _half(low, bucket, whole=not high)
            self.buckets[index + len(old)] = _half(high, bucket, whole=not low)

    def remove(self, node: Node) -> None:
        """Remove a key that is in the table."""
        index = node.hashed & (len(self.buckets) - 1)
        bucket = self.buckets[index]
        if isinstance(bucket, TreeBin):
            if not bucket.remove(node):
                self.buckets[index] = list(bucket)
        else:
            bucket.remove(node)
        self.size -= 1

    def walk(self) -> Iterable[Node]:
        return (node for bucket in self.buckets for node in bucket)


def _half(nodes: list[Node], bucket: list[Node] | TreeBin, *, whole: bool) -> list[Node] | TreeBin:
    """Return what one half of a bucket becomes when the table grows (``TreeNode.split``)."""
    if isinstance(bucket, list) or len(nodes) <= LARGEST_BIN_TO_UNTREE:
        return nodes
    return bucket if whole else TreeBin(nodes)
