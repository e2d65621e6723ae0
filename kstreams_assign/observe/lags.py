"""How far each copy of a task is, as its process told at its last join, against where the changelogs end now.

Positions are told at joins only, so a lag here is that of the last join, or more where the changelog has grown since. What
lives here: the numbers, and why a lag cannot close by itself. What must not: what follows from it (``describe``).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kstreams_assign.assign import compute_lag, is_caught_up
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedProcess


@dataclass(frozen=True, slots=True)
class CopyLag:
    """One copy of a stateful task on one process.

    ``told`` is the number that was told at the last join, None for nothing. ``lag`` is in offsets, 0 for what runs; None where
    nobody knows, as where a position is told to be unknown (-3; assignors let no other copy pass before that one). ``ready``: the leader counts it as caught up. ``stuck`` says why the lag cannot close by reading on.
    """

    process: UUID
    task: TaskId
    told: int | None
    lag: int | None
    ready: bool
    stuck: str | None = None


def copy_lags(group: ObservedGroup) -> dict[tuple[UUID, TaskId], CopyLag]:
    """For every stateful task that a process runs, copies, or told state of."""
    return {
        (process.process_id, task): _copy(group, process, task)
        for process in group.decoded.processes
        for task in sorted((process.active | process.copies | process.offset_sums.keys()) & group.stateful)
    }


def _copy(group: ObservedGroup, process: DecodedProcess, task: TaskId) -> CopyLag:
    told = process.offset_sums.get(task)
    if told == RUNNING_OFFSET_SUM:
        return CopyLag(process.process_id, task, told, 0, ready=True)
    if task in process.active:  # it was given cold, and nothing tells whether it is restored by now
        return CopyLag(process.process_id, task, told, None, ready=True)
    if told == UNKNOWN_OFFSET_SUM or not group.ends_known:
        return CopyLag(process.process_id, task, told, None, ready=False)
    if process.report.task_lags is not None:
        lag = group.end_offset_sums[task] if told is None else told
        return CopyLag(process.process_id, task, told, lag, _ready(group, lag))
    lag = compute_lag(group.end_offset_sums[task], told)
    return CopyLag(process.process_id, task, told, lag, _ready(group, lag), _stuck(group, task, told))


def _ready(group: ObservedGroup, lag: int) -> bool:
    return is_caught_up(lag, group.config.acceptable_recovery_lag)


def _stuck(group: ObservedGroup, task: TaskId, told: int | None) -> str | None:
    end, begin = group.end_offset_sums[task], group.begin_offset_sums.get(task, 0)
    if told is not None and told > end:
        return (
            f"its position {told:,} is beyond the changelog's end {end:,} (was the topic created anew?), which counts as "
            "everything to read until that state is wiped"
        )
    if told is not None and 0 < told < begin:
        return f"its position {told:,} is gone from the changelog, which begins at {begin:,}: it has to start over"
    return None


@dataclass(frozen=True, slots=True)
class Stalled:
    """A copy whose lag did not shrink between two joins."""

    process: UUID
    task: TaskId
    before: int
    after: int


def stalled(before: ObservedGroup, now: ObservedGroup) -> list[Stalled]:
    """Copies that told a position at two joins and are no nearer to the end at the second."""
    if before.decoded.snapshot.generation == now.decoded.snapshot.generation:
        return []
    lags_before, found = copy_lags(before), []
    for key, copy in copy_lags(now).items():
        earlier = lags_before.get(key)
        if earlier is None or earlier.lag is None or earlier.told is None or copy.told is None or copy.lag is None:
            continue
        if copy.lag >= earlier.lag and not copy.ready and key[1] in _copies(now, key[0]):
            found.append(Stalled(copy.process, copy.task, earlier.lag, copy.lag))
    return found


def _copies(group: ObservedGroup, process: UUID) -> frozenset[TaskId]:
    return frozenset(task for one, task in group.copies if one == process)
