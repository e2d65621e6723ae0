"""Which task a changelog partition belongs to: no record says it, so it is concluded, or left open.

A changelog has as many partitions as its subtopology has tasks. Where that fits only one subtopology with state, it is that
one; where it fits several, the task is unknown, and nothing is concluded from such an end offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kstreams_assign.history.movements import subtopology_of
from kstreams_assign.history.records import EndOffset


def subtopologies_of(ends: Iterable[EndOffset], tasks: Iterable[str], stateful: Iterable[str]) -> dict[str, str | None]:
    """Changelog topic -> its subtopology (``0``, or ``topology__0``); None where several fit, or none does."""
    sizes = Counter(map(subtopology_of, set(tasks)))
    partitions = Counter(topic for topic, _ in {(end.topic, end.partition) for end in ends})
    candidates = [one for one in dict.fromkeys(stateful) if sizes[one]]
    if len(candidates) == 1:
        return dict.fromkeys(partitions, candidates[0])
    fitting = {topic: [one for one in candidates if sizes[one] == count] for topic, count in partitions.items()}
    return {topic: fit[0] if len(fit) == 1 else None for topic, fit in fitting.items()}


def end_sums(ends: Iterable[EndOffset], owner_of: Mapping[str, str | None]) -> dict[str, int]:
    """Task -> the ends of its changelogs, added up; nothing at all while a changelog of the group has no known task."""
    if None in owner_of.values():
        return {}
    sums: dict[str, int] = {}
    for end in ends:
        task = f"{owner_of[end.topic]}_{end.partition}"
        sums[task] = sums.get(task, 0) + end.end
    return sums
