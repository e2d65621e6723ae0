"""Cycles in a graph of last predecessors, as a search for negative cycles leaves it (Bellman-Ford)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Step = tuple[int, int, int]
"""(the node it leaves, the node it comes to, the label of the arc)."""


def find_cycles(came: Mapping[int, tuple[int, int]], starts: Iterable[int]) -> list[list[Step]]:
    """Return cycles without a common node. ``came`` maps a node to its predecessor and the label of the arc."""
    rounds = []
    seen: dict[int, int] = {}
    for start in sorted(starts):
        node = start
        while node in came and node not in seen:
            seen[node] = start
            node = came[node][0]
        if node in came and seen.get(node) == start:
            arcs, at = [], node
            while True:
                source, label = came[at]
                arcs.append((source, at, label))
                at = source
                if at == node:
                    break
            rounds.append(arcs)
    return rounds
