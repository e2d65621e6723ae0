"""Iteration orders of Java's hash tables: recorded ones, and rules that are known without Java.

``golden_hash_table.jsonl`` holds what ``java.util.HashMap`` of Java 17 answered: keys as ``[hash, order]`` in
insertion order, the orders of deleted keys, and the iteration over the rest. Most have buckets of more than eight
keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign.java.hash_table import HashTable, is_crowded, spread, walk_order
from kstreams_assign.assign.java.tree_bin import Node, TreeBin
from kstreams_assign.assign.java_order import process_hash, task_hash, task_order, text_hash, text_order
from kstreams_assign.model import TaskId

FOLDER = Path(__file__).parent


def test_keys_are_iterated_as_java_iterated_them():
    crowded = 0
    for number, line in enumerate((FOLDER / "golden_hash_table.jsonl").read_text(encoding="utf-8").splitlines()):
        case = json.loads(line)
        hashes = {order: hashed & 0xFFFFFFFF for hashed, order in case["keys"]}
        keys = [order for _, order in case["keys"]]
        spread_out = [spread(hashes[key]) for key in keys]
        assert walk_order(keys, spread_out, int, case["removed"]) == case["walk"], f"line {number + 1}"
        crowded += is_crowded(spread_out)
    assert crowded >= 30


def test_hashes_equal_javas():
    assert text_hash("zone") == 3744684
    assert text_hash("Aa") == text_hash("BB") == 2112
    assert text_hash("polygenelubricants") == 0x80000000
    assert text_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert task_hash(TaskId(0, 0)) == 29791
    assert task_hash(TaskId(2, 3)) == 29791 + 2 * 961 + 3 * 31
    assert task_hash(TaskId(0, 0, "a")) == 29791 + 97
    assert process_hash(UUID(int=1)) == 1
    assert process_hash(UUID(int=(5 << 64) | (7 << 32))) == 5 ^ 7


def test_texts_and_named_tasks_sort_as_in_java():
    assert text_order("\U0001f600") < text_order("\ufffd")
    tasks = [TaskId(9, 0, "a"), TaskId(0, 1, "b"), TaskId(1, 0, "b")]
    assert sorted([tasks[2], tasks[0], tasks[1]], key=task_order) == tasks


@given(st.sets(st.integers(0, 2**32 - 1), max_size=60))
def test_keys_in_short_buckets_are_iterated_by_bucket(hashes):
    keys = sorted(hashes)
    table = HashTable()
    for key in keys:
        table.put(Node(key, spread(key), key))
    assert walk_order(keys, [spread(key) for key in keys], int) == [node.key for node in table.walk()]


@given(st.permutations(range(40)), st.integers(0, 40))
def test_a_bucket_stays_a_red_black_tree(orders, removed):
    """Ordered, no red below red, as many blacks on every way down; the root is walked first."""
    nodes = [Node(order, 7, order) for order in orders]
    tree = TreeBin(nodes[:9])
    for node in nodes[9:]:
        tree.insert(node)
        assert blacks(tree.root) > 0
    for node in nodes[:removed]:
        if not tree.remove(node):
            break
        assert blacks(tree.root) > 0
        assert tree.walk[0] is tree.root
        assert [each.key for each in in_order(tree.root)] == sorted(each.key for each in tree)


def in_order(node):
    return [*in_order(node.left), node, *in_order(node.right)] if node else []


def blacks(node):
    """Return the number of black nodes on each path down; check the laws on the way."""
    if node is None:
        return 1
    for child in (node.left, node.right):
        assert child is None or child.parent is node
        assert child is None or not (node.red and child.red)
    left, right = blacks(node.left), blacks(node.right)
    assert left == right
    return left + (not node.red)
