"""Java's order of copartitioned topics, which are hash sets there: of the groups, and of the topics of each group.

The brokers compare these lists as they come, so a member with another order has another topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreams_assign.assign.java.hash_table import SMALLEST_TABLE, first_table_size, spread, walk_order
from kstreams_assign.assign.java_order import text_hash, text_order


def java_copartition_groups(declared: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the declared groups of an application as ``InternalTopologyBuilder.copartitionGroups`` does (Java 17).

    Groups that share a topic are one. In Java, the names of source nodes decide between topics of one bucket; here it
    is the order in which the topics are declared.
    """
    group_by_topic: dict[str, dict[str, None]] = {}
    for topics in declared:
        ordered = _in_a_set(topics)
        group = next((group_by_topic[topic] for topic in ordered if topic in group_by_topic), {})
        group.update(dict.fromkeys(ordered))
        group_by_topic.update(dict.fromkeys(ordered, group))
    groups = {frozenset(group): _in_a_set(group) for group in group_by_topic.values()}
    hashes = [spread(sum(map(text_hash, group)) & 0xFFFFFFFF) for group in groups]
    smallest = first_table_size(max(len(group_by_topic) * 4 // 3 + 1, SMALLEST_TABLE))
    return [groups[group] for group in walk_order(list(groups), hashes, sorted, smallest=smallest)]


def _in_a_set(topics: Iterable[str]) -> list[str]:
    """Return the topics in the order of a ``HashSet`` that they were added to one by one."""
    distinct = list(dict.fromkeys(topics))
    return walk_order(distinct, [spread(text_hash(topic)) for topic in distinct], text_order)
