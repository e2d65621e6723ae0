"""A bucket of a ``java.util.HashMap`` that has become a red-black tree.

The tree only finds keys; iteration follows a list beside it. But the tree decides where in the list a new key goes
(right behind its parent) and which key comes first (the root), so it is kept as Java keeps it: the textbook's
red-black tree (Cormen, Leiserson, Rivest, Stein), ordered by hash and then by ``compareTo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class Node:
    """A key, its hash and its place in the tree."""

    __slots__ = ("hashed", "key", "left", "order", "parent", "red", "right")

    def __init__(self, key: Any, hashed: int, order: Any) -> None:
        self.key = key
        self.hashed = hashed
        self.order = (hashed - (hashed >> 31 << 32), order)  # Java compares hashes as signed numbers
        self.plant(None)

    def plant(self, parent: Node | None) -> None:
        """Make the node a red leaf below ``parent``."""
        self.parent = parent
        self.left: Node | None = None
        self.right: Node | None = None
        self.red = True


class TreeBin:
    """The nodes of one bucket: ``walk`` is their order, ``root`` their tree."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.walk: list[Node] = list(nodes)
        self.root: Node | None = None
        for node in self.walk:
            self._insert_below(self._parent_for(node), node)
        self._root_to_front()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.walk)

    def insert(self, node: Node) -> None:
        """Insert a new node behind its parent in the walk."""
        parent = self._parent_for(node)
        self.walk.insert(self.walk.index(parent) + 1 if parent else 0, node)
        self._insert_below(parent, node)
        self._root_to_front()

    def remove(self, node: Node) -> bool:
        """Remove a node; return whether the rest is still a tree (otherwise only the walk counts)."""
        self.walk.remove(node)
        root = self.root
        if root is None or root.right is None or root.left is None or root.left.left is None:
            return False
        self._cut_out(node)
        self._root_to_front()
        return True

    def _root_to_front(self) -> None:
        if self.root is not None and self.walk[0] is not self.root:
            self.walk.remove(self.root)
            self.walk.insert(0, self.root)

    def _parent_for(self, node: Node) -> Node | None:
        parent, place = None, self.root
        while place is not None:
            parent, place = place, place.left if node.order < place.order else place.right
        return parent

    def _insert_below(self, parent: Node | None, node: Node) -> None:
        node.plant(parent)
        if parent is None:
            self.root = node
        elif node.order < parent.order:
            parent.left = node
        else:
            parent.right = node
        self._mend_insertion(node)

    def _mend_insertion(self, node: Node) -> None:
        """Restore "no red node below a red node": recolour upwards, then rotate once or twice."""
        while (parent := node.parent) is not None and parent.red and (grand := parent.parent) is not None:
            on_left = parent is grand.left
            uncle = grand.right if on_left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                node = grand
                continue
            if node is (parent.right if on_left else parent.left):
                self._rotate(parent, to_left=on_left)
                node, parent = parent, node
            parent.red = False
            grand.red = True
            self._rotate(grand, to_left=not on_left)
        if self.root is not None:
            self.root.red = False

    def _rotate(self, node: Node, *, to_left: bool) -> None:
        """Move the node down to one side and its child on the other side up."""
        child = node.right if to_left else node.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        self._replace(node, child)
        node.parent = child

    def _replace(self, node: Node, other: Node | None) -> None:
        """Put another subtree in the node's place."""
        parent = node.parent
        if parent is None:
            self.root = other
        elif parent.left is node:
            parent.left = other
        else:
            parent.right = other
        if other is not None:
            other.parent = parent

    def _cut_out(self, node: Node) -> None:
        """Delete a node; with two children it first swaps places with its successor."""
        if node.left is not None and node.right is not None:
            successor = node.right
            while successor.left is not None:
                successor = successor.left
            self._change_places(node, successor)
        child = node.left or node.right
        if child is not None:
            self._replace(node, child)
            if not node.red:
                self._mend_deletion(child)
            return
        if not node.red:
            self._mend_deletion(node)
        self._replace(node, None)

    def _change_places(self, node: Node, successor: Node) -> None:
        """Swap two nodes and their colours; the successor is the leftmost below the node's right child."""
        node.red, successor.red = successor.red, node.red
        left, right, below = node.left, node.right, successor.right
        above = successor.parent
        self._replace(node, successor)
        if successor is right:
            successor.right, node.parent = node, successor
        elif above is not None and right is not None:
            successor.right, right.parent = right, successor
            above.left, node.parent = node, above
        successor.left = left
        if left is not None:
            left.parent = successor
        node.left, node.right = None, below
        if below is not None:
            below.parent = node

    def _mend_deletion(self, node: Node) -> None:
        """Restore the missing black on the path through ``node``."""
        while (parent := node.parent) is not None and not node.red:
            on_left = parent.left is node
            sibling = parent.right if on_left else parent.left
            if sibling is not None and sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, to_left=on_left)
                sibling = parent.right if on_left else parent.left
            if sibling is None:
                node = parent
                continue
            near, far = (sibling.left, sibling.right) if on_left else (sibling.right, sibling.left)
            if not _is_red(near) and not _is_red(far):
                sibling.red = True
                node = parent
                continue
            self._lend(parent, sibling, near, far, on_left=on_left)
            return
        node.red = False

    def _lend(self, parent: Node, sibling: Node, near: Node | None, far: Node | None, *, on_left: bool) -> None:
        """Move a black over by one or two rotations; the sibling has a red child."""
        if not _is_red(far):
            assert near is not None
            near.red, sibling.red = False, True
            self._rotate(sibling, to_left=not on_left)
            sibling, far = near, sibling
        sibling.red, parent.red = parent.red, False
        if far is not None:
            far.red = False
        self._rotate(parent, to_left=on_left)


def _is_red(node: Node | None) -> bool:
    return node is not None and node.red
