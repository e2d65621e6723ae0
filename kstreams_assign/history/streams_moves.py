"""Tasks of a streams group that changed their process: when each was released and taken, and the gap in its commits.

What lives here: how records of members' tasks and commits change the memory. What must not: bytes, and rows of other
tables. A commit names no member, but the record that takes a task and the one that gives it out stand in the same
partition of the topic: a commit between the two owners' records is the old owner's, one behind them the new owner's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kstreams_assign.history.idle import (
    COMMITTED_WITHIN_MS,
    find_last_commit_ms,
    gap_between,
    idle_after,
    last_commit_of,
)
from kstreams_assign.history.movements import held_between, is_overdue
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.streams_memory import CurrentTasks, StreamsMemory, StreamsMove

SESSION_MAX_MS = 60_000
"""Kafka's default ``group.streams.max.session.timeout.ms``: so long a removed member may have been dead already."""

NOTHING = CurrentTasks(-1, 1, [], [], [], [], [])


class At(NamedTuple):
    """When and where a record stands."""

    time_ms: int
    offset: int


def take_tasks(
    memory: StreamsMemory, member_id: str, tasks: CurrentTasks | None, at: At, ends: Sequence[EndOffset]
) -> None:
    """Note what a member owns now; ``None``: it was removed. ``ends``: of the changelogs, as sampled near ``at``."""
    old = memory.current.get(member_id, NOTHING)
    new = NOTHING if tasks is None else tasks
    for task in old.running - new.running:
        memory.released[task] = [*at, tasks is not None]
    if tasks is None:
        memory.current.pop(member_id, None)
    else:
        memory.current[member_id] = tasks
    process = memory.process_of(member_id)
    if process is None:
        return
    _take(memory, sorted(new.running - old.running), process, at, ends)
    for task in old.copies - new.copies:
        if process in memory.copies.get(task, {}):
            memory.copies[task][process][1] = False
    for task in sorted(new.copies - old.copies):
        memory.copies.setdefault(task, {}).setdefault(process, [at.time_ms, True])[1] = True


def forget_dropped_copies(memory: StreamsMemory) -> None:
    """At the end of a rebalance: a process that gave up a copy and was not given the task does not keep it."""
    memory.copies = {
        task: kept
        for task, holders in memory.copies.items()
        if (kept := {process: copy for process, copy in holders.items() if copy[1]})
    }


def _take(memory: StreamsMemory, tasks: Sequence[str], process: str, at: At, ends: Sequence[EndOffset]) -> None:
    moving = [task for task in tasks if memory.owners.get(task, [process])[0] != process]
    moves = [_move(memory, task, process, at, ends) for task in moving]
    settle(move for move in memory.moves if move.task in moving)
    memory.moves += moves
    for task in tasks:
        memory.released.pop(task, None)
        memory.copies.get(task, {}).pop(process, None)
        if task in moving or task not in memory.owners:
            memory.owners[task] = [process, at.offset]


def _move(memory: StreamsMemory, task: str, process: str, at: At, ends: Sequence[EndOffset]) -> StreamsMove:
    owner, released = memory.owners[task], memory.released.get(task)
    copy = memory.copies.get(task, {}).get(process)
    return StreamsMove(
        task=task,
        from_process=owner[0],
        to_process=process,
        planned=any(member.process_id == owner[0] for member in memory.members.values()),
        warm=True if has_empty_changelogs(memory, task, ends) else None,
        held_ms=held_between(None if copy is None else copy[0], at.time_ms),
        released_ms=None if released is None else released[0],
        taken_ms=at.time_ms,
        inputs=memory.inputs_of(task),
        last_commit_ms=_last_commit(memory, task, owner, released),
    )


def _last_commit(memory: StreamsMemory, task: str, owner: Sequence[Any], released: Sequence[int] | None) -> int | None:
    """When the old owner last committed the task; ``None`` if it did not, or no input waited while it was alive."""
    process, since_offset = owner
    last_ms = find_last_commit_ms(memory, memory.inputs_of(task), since_offset)
    if last_ms is None:
        return None
    alive_ms = last_commit_of(memory, process)
    if released is not None:
        alive_ms = max(alive_ms, released[0] - (0 if released[2] else SESSION_MAX_MS))
    return None if alive_ms - last_ms > COMMITTED_WITHIN_MS else last_ms


def commit_of_streams(memory: StreamsMemory, partition: str, time_ms: int, offset: int) -> None:
    """Note a commit of an input partition; it settles the movement of its task."""
    for move in memory.moves:
        if not move.settled and partition in move.inputs:
            move.settled = True
            if (
                move.last_commit_ms is not None
                and not is_overdue(move.taken_ms, time_ms)
                and not _idle_after(memory, move)
            ):
                move.gap_ms = gap_between(move.last_commit_ms, time_ms)
    memory.commits[partition] = [time_ms, offset]


def _idle_after(memory: StreamsMemory, move: StreamsMove) -> bool:
    """Whether the new owner, with nothing to restore, has been alive without input of the task since it took it."""
    if not move.warm and move.held_ms is None:
        return False
    _, taken_offset = memory.owners[move.task]
    return idle_after(memory, move.to_process, move.taken_ms, taken_offset)


def settle(moves: Iterable[StreamsMove]) -> None:
    """Wait for no commit any longer."""
    for move in moves:
        move.settled = True


def settle_overdue(memory: StreamsMemory, now_ms: int) -> None:
    """Settle the movements that have waited for a commit for too long."""
    settle(move for move in memory.moves if is_overdue(move.taken_ms, now_ms))


def settled_moves(memory: StreamsMemory) -> list[StreamsMove]:
    """Take the movements out whose rows are complete."""
    done = [move for move in memory.moves if move.complete]
    memory.moves = [move for move in memory.moves if not move.complete]
    return done


def has_empty_changelogs(memory: StreamsMemory, task: str, ends: Iterable[EndOffset]) -> bool:
    """Whether the task has changelogs, and all of them were sampled and hold no record."""
    subtopology, _, partition = task.rpartition("_")
    topics = memory.changelogs.get(subtopology, ())
    empty = {end.topic for end in ends if str(end.partition) == partition and end.begin >= end.end}
    return bool(topics) and empty.issuperset(topics)
