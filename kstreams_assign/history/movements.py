"""Tasks that changed their process: from which to which, planned or not, warm or cold, and the gap in their commits.

A commit names no member, only its place in the topic shows whose it is: before the record of a generation commit the
owners of the generation before, after it its own. So a movement waits for the first commit behind it. Its row is
written once: with that commit, or without a gap where the task's next movement or the end of the group comes first, or
where the commit comes over ``GAP_WAIT_MS`` after the movement. A silence in which no input waited is no gap (``idle``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kstreams_assign.assign import compute_lag, is_caught_up
from kstreams_assign.history.causes import processes_there
from kstreams_assign.history.idle import find_last_commit_ms, gap_between, idle_after, idle_before
from kstreams_assign.history.memory import Memory, Pending
from kstreams_assign.history.seen import Generation
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM

WARM_LAG_MAX = 10_000
"""Kafka's default ``acceptable.recovery.lag``; the group's own setting is in no record."""

GAP_WAIT_MS = 600_000
"""A task whose new owner commits nothing for so long has no input: its movement is written without a gap."""

Rows = list[tuple[Any, ...]]

OFFSET, TIME_MS, TASK, TO_PROCESS, PLANNED, WARM = (
    COLUMNS["movements"].index(name) for name in ("offsets_offset", "time_ms", "task", "to_process", "planned", "warm")
)


class Changelogs(NamedTuple):
    """The changelogs of a task as sampled: their ends, added up, and whether they hold no record."""

    end: int
    empty: bool


class Moved(NamedTuple):
    """What a generation did to owners: tasks whose old owner stays, tasks whose old owner left, and completed rows."""

    owner_changes: int
    adopted: int
    rows: Rows


def move(memory: Memory, seen: Generation, changelogs: Mapping[str, Changelogs]) -> Moved:
    """Note the owners of this generation. ``changelogs``: of each task, as sampled."""
    there = processes_there(seen, memory.last)
    memory.alive_ms = _alive_times(memory, seen, there)
    moving = {task for task, process in seen.owners.items() if memory.owners.get(task, [process])[0] != process}
    rows = without_gap(memory, [movement for movement in memory.pending if movement.row[TASK] in moving])
    started = [_pending(memory, seen, there, task, changelogs.get(task)) for task in sorted(moving)]
    memory.pending += started
    for task, process in seen.owners.items():
        if task in moving or task not in memory.owners:
            memory.owners[task] = [process, seen.place.offset]
    memory.copies = {
        task: {process: memory.copies.get(task, {}).get(process, seen.place.time_ms) for process in holders}
        for task, holders in seen.copies.items()
    }
    memory.inputs.update({task: list(map(str, inputs)) for task, inputs in seen.inputs.items()})
    memory.removal_ms = {
        **{process: limit_ms for process, limit_ms in memory.removal_ms.items() if process in there},
        **removal_times(seen),
    }
    planned = sum(movement.row[PLANNED] for movement in started)
    return Moved(planned, len(started) - planned, rows)


def removal_times(seen: Generation) -> dict[str, int]:
    """Process -> how long it may be silent before the broker removes its members: session, or between two polls."""
    return {
        process: max(max(member.raw.session_timeout_ms, member.raw.rebalance_timeout_ms) for member in members)
        for process, members in seen.processes.items()
    }


def _alive_times(memory: Memory, seen: Generation, there: Collection[str]) -> dict[str, int]:
    """Owner of tasks that has left -> until when it was alive: the broker removes a silent member only later."""
    left_ms = {
        process: seen.place.time_ms - limit_ms
        for process, limit_ms in memory.removal_ms.items()
        if process not in there
    }
    owners = {owner for owner, _ in memory.owners.values()} - set(there)
    return {process: time_ms for process, time_ms in {**memory.alive_ms, **left_ms}.items() if process in owners}


def _pending(
    memory: Memory, seen: Generation, there: Collection[str], task: str, changelogs: Changelogs | None
) -> Pending:
    before, since_offset = memory.owners[task]
    process = seen.owners[task]
    since_ms = memory.copies.get(task, {}).get(process)
    inputs = list(map(str, seen.inputs[task]))
    last_commit_ms = find_last_commit_ms(memory, inputs, since_offset)
    if last_commit_ms is not None and idle_before(
        memory, before, last_commit_ms, seen.place.time_ms if before in there else None
    ):
        last_commit_ms = None
    row = [
        *seen.place,
        task,
        before,
        process,
        before in there,
        _warm(memory, seen, there, task, changelogs),
        held_between(since_ms, seen.place.time_ms),
    ]
    return Pending(row, inputs, last_commit_ms)


def held_between(since_ms: int | None, moved_ms: int) -> int | None:
    """Return how long a process had a copy before it got the task; 0 where a clock that was set back makes it less.

    None without a copy: ``since_ms`` is None.
    """
    return None if since_ms is None else max(0, moved_ms - since_ms)


def note_state(memory: Memory, seen: Generation) -> None:
    """Before ``move``: a subtopology has state if any member ever reported state of one of its tasks."""
    memory.stateful = sorted({*memory.stateful, *map(subtopology_of, seen.tasks_with_state)})


def subtopology_of(task: str) -> str:
    """``0`` of ``0_3``, ``topology__0`` of ``topology__0_3``."""
    return task.rpartition("_")[0]


def _warm(
    memory: Memory, seen: Generation, there: Collection[str], task: str, changelogs: Changelogs | None
) -> bool | None:
    """Whether the new owner had the task's state; None where the task has none, or no record shows it.

    A process that reported nothing of the task has nothing to restore where the changelogs are empty.
    """
    if subtopology_of(task) not in memory.stateful:
        return None
    process = seen.owners[task]
    reported = seen.offset_sums.get(process, {}).get(task)
    if reported is None:
        return changelogs is not None and changelogs.empty
    if reported == RUNNING_OFFSET_SUM:
        return True
    if seen.dialect.tells_lags:
        return is_caught_up(reported, WARM_LAG_MAX)
    if reported != UNKNOWN_OFFSET_SUM and changelogs is not None:
        return is_caught_up(compute_lag(changelogs.end, reported), WARM_LAG_MAX)
    held_back = process in memory.copies.get(task, {}) and memory.owners[task][0] in there
    return True if held_back else None


def commit(memory: Memory, partition: str, time_ms: int, offset: int) -> Rows:
    """Note a commit of an input partition at ``offset`` of the topic; return the movements that it completes."""
    done = [movement for movement in memory.pending if partition in movement.inputs]
    if done:
        memory.pending = [movement for movement in memory.pending if partition not in movement.inputs]
    rows = [_row(movement, _gap_ms(memory, movement, time_ms)) for movement in done]
    memory.commits[partition] = [time_ms, offset]
    return rows


def _gap_ms(memory: Memory, movement: Pending, time_ms: int) -> int | None:
    """From the old owner's last commit to the new owner's first, at ``time_ms``."""
    if movement.last_commit_ms is None or is_overdue(movement.row[TIME_MS], time_ms):
        return None
    process, assigned_ms, assigned_offset = (movement.row[column] for column in (TO_PROCESS, TIME_MS, OFFSET))
    if movement.row[WARM] and idle_after(memory, process, assigned_ms, assigned_offset):
        return None
    return gap_between(movement.last_commit_ms, time_ms)


def is_overdue(moved_ms: int, now_ms: int) -> bool:
    """Whether a movement of ``moved_ms`` has waited too long for a commit as of a record of ``now_ms``."""
    return moved_ms + GAP_WAIT_MS < now_ms


def expired(memory: Memory, now_ms: int) -> Rows:
    """Return the movements that have waited too long as of a record of ``now_ms``; they are in the order of time."""
    if not memory.pending or not is_overdue(memory.pending[0].row[TIME_MS], now_ms):
        return []
    overdue = [movement for movement in memory.pending if is_overdue(movement.row[TIME_MS], now_ms)]
    return without_gap(memory, overdue)


def without_gap(memory: Memory, done: Sequence[Pending]) -> Rows:
    """Return the rows of movements that wait no longer."""
    if done:
        done_ids = set(map(id, done))
        memory.pending = [movement for movement in memory.pending if id(movement) not in done_ids]
    return [_row(movement, None) for movement in done]


def _row(movement: Pending, gap_ms: int | None) -> tuple[Any, ...]:
    """No record says when a classic member released or took a task."""
    return (*movement.row, gap_ms, None, None)
