"""Tasks that changed their process: from whom to whom, planned or not, warm or cold, and how long nobody committed.

A commit names no member, only its place in the topic tells whose it is: before the record of a generation commit the owners
of the one before, after it its own. So a movement waits for the first commit behind it. Its row is written once:
with that commit, or without a gap where the task's next movement, the end of the group or ``GAP_WAIT_MS`` comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kstreams_assign.assign import is_caught_up, lag_of
from kstreams_assign.history.memory import Memory, Pending
from kstreams_assign.history.seen import Generation
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM

WARM_LAG_MAX = 10_000
"""Kafka's default ``acceptable.recovery.lag``; the group's own stands in no record."""

GAP_WAIT_MS = 600_000
"""A task whose new owner commits nothing for so long has no input: its movement is told without a gap."""

Rows = list[tuple[Any, ...]]

TIME_MS, TASK, PLANNED = (COLUMNS["movements"].index(name) for name in ("time_ms", "task", "planned"))


class Moved(NamedTuple):
    """What a generation did to owners: tasks whose old one stays, tasks whose old one is gone, and rows that got ready."""

    owner_changes: int
    adopted: int
    rows: Rows


def move(memory: Memory, seen: Generation, ends: Mapping[str, int]) -> Moved:
    """Note who owns what now. ``ends``: task -> the sampled end of its changelogs, added up."""
    moving = {task for task, process in seen.owners.items() if memory.owners.get(task, [process])[0] != process}
    rows = without_gap(memory, [one for one in memory.pending if one.row[TASK] in moving])
    started = [_pending(memory, seen, task, seen.owners[task], ends) for task in sorted(moving)]
    memory.pending += started
    for task, process in seen.owners.items():
        if task in moving or task not in memory.owners:
            memory.owners[task] = [process, seen.place.offset]
    memory.copies = {
        task: {one: memory.copies.get(task, {}).get(one, seen.place.time_ms) for one in holders}
        for task, holders in seen.copies.items()
    }
    memory.inputs.update({task: list(map(str, inputs)) for task, inputs in seen.inputs.items()})
    planned = sum(one.row[PLANNED] for one in started)
    return Moved(planned, len(started) - planned, rows)


def _pending(memory: Memory, seen: Generation, task: str, process: str, ends: Mapping[str, int]) -> Pending:
    before, since_offset = memory.owners[task]
    since_ms = memory.copies.get(task, {}).get(process)
    inputs = list(map(str, seen.inputs[task]))
    commits = [memory.commits[one] for one in inputs if one in memory.commits]
    row = [
        *seen.place,
        task,
        before,
        process,
        before in seen.processes,
        _warm(memory, seen, task, process, ends),
        None if since_ms is None else seen.place.time_ms - since_ms,
    ]
    return Pending(row, inputs, max((ms for ms, offset in commits if offset > since_offset), default=None))


def note_state(memory: Memory, seen: Generation) -> None:
    """Before ``move``: a subtopology has state if anybody ever reported an offset of one of its tasks."""
    told = {task for sums in seen.offset_sums.values() for task in sums}
    memory.stateful = sorted({*memory.stateful, *map(subtopology_of, told)})


def subtopology_of(task: str) -> str:
    """``0`` of ``0_3``, ``topology__0`` of ``topology__0_3``."""
    return task.rpartition("_")[0]


def _warm(memory: Memory, seen: Generation, task: str, process: str, ends: Mapping[str, int]) -> bool | None:
    """Whether the new owner had the task's state; None where the task has none, or nothing tells."""
    if subtopology_of(task) not in memory.stateful:
        return None
    told = seen.offset_sums.get(process, {}).get(task)
    if told is None:
        return False
    if told == RUNNING_OFFSET_SUM:
        return True
    if seen.dialect.tells_lags:
        return is_caught_up(told, WARM_LAG_MAX)
    if told != UNKNOWN_OFFSET_SUM and task in ends:
        return is_caught_up(lag_of(ends[task], told), WARM_LAG_MAX)
    held_back = process in memory.copies.get(task, {}) and memory.owners[task][0] in seen.processes
    return True if held_back else None


def commit(memory: Memory, partition: str, time_ms: int, offset: int) -> Rows:
    """Note a commit of an input partition at ``offset`` of the topic; the movements that it completes."""
    memory.commits[partition] = [time_ms, offset]
    done = [one for one in memory.pending if partition in one.inputs]
    if done:
        memory.pending = [one for one in memory.pending if partition not in one.inputs]
    return [(*one.row, None if one.last_commit_ms is None else time_ms - one.last_commit_ms) for one in done]


def expired(memory: Memory, now_ms: int) -> Rows:
    """The movements that have waited for too long, as of a record of ``now_ms``; they stand in the order of time."""
    if not memory.pending or memory.pending[0].row[TIME_MS] + GAP_WAIT_MS >= now_ms:
        return []
    return without_gap(memory, [one for one in memory.pending if one.row[TIME_MS] + GAP_WAIT_MS < now_ms])


def without_gap(memory: Memory, done: Sequence[Pending]) -> Rows:
    """The rows of movements that wait no longer."""
    if done:
        gone = set(map(id, done))
        memory.pending = [one for one in memory.pending if id(one) not in gone]
    return [(*one.row, None) for one in done]
