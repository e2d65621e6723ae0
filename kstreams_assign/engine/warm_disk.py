"""Which tasks a process restores before it joins a streams group, by the room that their state has on its disk.

The brokers report the size of a changelog in offsets, not in bytes on this disk. So what an offset takes is measured on
the state that is here already, for each subtopology, as its tasks have the same stores. Until enough is here nothing is
predicted. What must not live here: measuring (the shell's), and when a process joins (``warm_join``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId

MEASURABLE_BYTES = 16 << 20
"""State of a subtopology that is large enough to predict by: RocksDB's own files count less then."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of the state directory: bytes that are free, those of them to leave free, and those of each task."""

    free_bytes: int
    reserve_bytes: int
    held_bytes: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Tasks that have no room: ``needed_bytes`` to restore all, of which ``room_bytes`` are there.

    ``limit``: the setting that gives no more room, ``warm_join_max_bytes``, or else ``state_dir``.
    """

    tasks: frozenset[TaskId]
    needed_bytes: int
    room_bytes: int
    limit: str


def find_shortage(
    first: AbstractSet[TaskId],
    then: AbstractSet[TaskId],
    offsets: Mapping[TaskId, int],
    lags: Mapping[TaskId, int],
    disk: Disk,
    max_bytes: int | None,
    acceptable_lag: int,
) -> Shortage | None:
    """Return the tasks that do not fit; None if all do. Those of ``first`` have precedence, and the smaller ones.

    ``offsets``: what each task's changelogs hold; ``lags``: how much of that is not here yet, for the open tasks.
    ``max_bytes``: how much the state of all these tasks may take. A task within ``acceptable_lag`` always fits.
    """
    tasks = first | then
    missing = _missing_bytes(tasks, offsets, lags, disk.held_bytes, acceptable_lag)
    room, limit = disk.free_bytes - disk.reserve_bytes, "state_dir"
    if max_bytes is not None:
        left = max_bytes - sum(disk.held_bytes.get(task, 0) for task in tasks)
        room, limit = min((room, limit), (left, "warm_join_max_bytes"))
    taken, without_room = 0, set()
    for task in sorted(tasks, key=lambda task: (task not in first, missing[task], task)):
        if missing[task] and taken + missing[task] > room:
            without_room.add(task)
        else:
            taken += missing[task]
    if not without_room:
        return None
    return Shortage(frozenset(without_room), sum(missing.values()), max(0, room), limit)


def _missing_bytes(
    tasks: AbstractSet[TaskId],
    offsets: Mapping[TaskId, int],
    lags: Mapping[TaskId, int],
    held: Mapping[TaskId, int],
    acceptable_lag: int,
) -> dict[TaskId, int]:
    """Return about how many bytes each task's state still needs; 0 also where nothing can be predicted."""
    bytes_by_offset = _bytes_by_offset(offsets, lags, held)
    missing = {}
    for task in tasks:
        per_offset = bytes_by_offset.get(task.subtopology, 0.0)
        if task in lags:
            missing[task] = round(lags[task] * per_offset) if lags[task] > acceptable_lag else 0
        else:  # not open yet: how much of it is here is known in bytes only
            missing[task] = max(0, round(offsets.get(task, 0) * per_offset) - held.get(task, 0))
    return missing


def _bytes_by_offset(
    offsets: Mapping[TaskId, int], lags: Mapping[TaskId, int], held: Mapping[TaskId, int]
) -> dict[int, float]:
    """Return how many bytes an offset of each subtopology takes here; of those that have enough state."""
    bytes_here: Counter[int] = Counter()
    offsets_here: Counter[int] = Counter()
    for task, lag in lags.items():
        if task not in offsets:
            continue  # its bytes would count, and its offsets would not
        bytes_here[task.subtopology] += held.get(task, 0)
        offsets_here[task.subtopology] += max(0, offsets.get(task, 0) - lag)
    return {
        number: bytes_here[number] / offsets_here[number]
        for number in bytes_here
        if bytes_here[number] >= MEASURABLE_BYTES and offsets_here[number]
    }
