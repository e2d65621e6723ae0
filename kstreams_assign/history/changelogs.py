"""Which task a changelog partition belongs to: no record says it, so it is concluded, or left open.

A changelog has as many partitions as its subtopology has tasks. Where that fits a single subtopology with state, the
changelog is that subtopology's; where it fits several, the task is unknown and nothing is concluded from its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kstreams_assign.history.memory import Memory
from kstreams_assign.history.movements import Changelogs, subtopology_of
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.seen import Generation


def tasks_there(memory: Memory, seen: Generation) -> set[str]:
    """Return the tasks that the application has: those given out, and those that a KIP-429 rebalance withholds.

    Where an assignment cannot be read, also those that its member may have been given: all that were given out before.
    """
    revoked = set(map(str, seen.revoked))
    withheld = {task for task, inputs in memory.inputs.items() if not revoked.isdisjoint(inputs)}
    unread = memory.owners.keys() if any(member.common is None for member in seen.members) else ()
    return withheld | seen.inputs.keys() | set(unread)


def subtopologies_of(ends: Iterable[EndOffset], tasks: set[str], stateful: Iterable[str]) -> dict[str, str | None]:
    """Changelog topic -> its subtopology (``0``, or ``topology__0``); None where several fit, or none does."""
    sizes = Counter(map(subtopology_of, tasks))
    partitions = Counter(topic for topic, _ in {(end.topic, end.partition) for end in ends})
    candidates = set(stateful)
    fitting = {topic: [name for name in candidates if sizes[name] == count] for topic, count in partitions.items()}
    return {topic: names[0] if len(names) == 1 else None for topic, names in fitting.items()}


def changelogs_of(ends: Iterable[EndOffset], owner_of: Mapping[str, str | None]) -> dict[str, Changelogs]:
    """Task -> its changelogs as sampled; nothing at all while a changelog of the group has no known task."""
    if None in owner_of.values():
        return {}
    by_task: dict[str, Changelogs] = {}
    for end in ends:
        task = f"{owner_of[end.topic]}_{end.partition}"
        before = by_task.get(task, Changelogs(0, empty=True))
        by_task[task] = Changelogs(before.end + end.end, before.empty and end.begin >= end.end)
    return by_task
