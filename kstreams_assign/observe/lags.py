"""The lag of each replica: its position as reported at the last join, against the changelogs' present end.

Members report positions at joins only, so a lag is that of the last join, or more if the changelog has grown since.
What lives here: the numbers, and why a lag cannot close by itself. What must not: conclusions from it (``describe``).
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
    """One replica of a stateful task on one process.

    ``reported`` is the number in the last join, None if there was none. ``lag`` is in offsets, 0 for a running task;
    None if it is not known, as for a position reported as unknown (-3; assignors rank no other replica before it).
    ``ready``: the leader counts it as caught up. ``stuck``: why the lag cannot close by reading on.
    """

    process: UUID
    task: TaskId
    reported: int | None
    lag: int | None
    ready: bool
    stuck: str | None = None


def copy_lags(group: ObservedGroup) -> dict[tuple[UUID, TaskId], CopyLag]:
    """Return the lag of every stateful task that a process runs, replicates, or still has the reported state of."""
    return {
        (process.process_id, task): _copy(group, process, task)
        for process in group.decoded.processes
        for task in sorted(
            (process.active | process.copies | process.offset_sums.keys() - group.deleted_state(process))
            & group.stateful
        )
    }


def _copy(group: ObservedGroup, process: DecodedProcess, task: TaskId) -> CopyLag:
    reported = process.offset_sums.get(task)
    if reported == RUNNING_OFFSET_SUM:
        return CopyLag(process.process_id, task, reported, 0, ready=True)
    if task in process.active:  # assigned without state; nothing reports whether it is restored by now
        return CopyLag(process.process_id, task, reported, None, ready=True)
    if reported == UNKNOWN_OFFSET_SUM or not group.ends_known:
        return CopyLag(process.process_id, task, reported, None, ready=False)
    if process.report.task_lags is not None:
        lag = group.end_offset_sums[task] if reported is None else reported
        return CopyLag(process.process_id, task, reported, lag, _ready(group, lag))
    lag = compute_lag(group.end_offset_sums[task], reported)
    return CopyLag(process.process_id, task, reported, lag, _ready(group, lag), _stuck(group, task, reported))


def _ready(group: ObservedGroup, lag: int) -> bool:
    return is_caught_up(lag, group.config.acceptable_recovery_lag)


def _stuck(group: ObservedGroup, task: TaskId, reported: int | None) -> str | None:
    end, begin = group.end_offset_sums[task], group.begin_offset_sums.get(task, 0)
    if reported is not None and reported > end:
        return (
            f"its position {reported:,} is beyond the changelog's end {end:,} (was the topic created again?), so its "
            "lag counts as the whole changelog until that state is deleted"
        )
    if reported is not None and 0 < reported < begin:
        return (
            f"its position {reported:,} was deleted from the changelog, which begins at {begin:,}: it has to start over"
        )
    return None


@dataclass(frozen=True, slots=True)
class Stalled:
    """A replica whose lag did not shrink between two joins."""

    process: UUID
    task: TaskId
    before: int
    after: int


def stalled(before: ObservedGroup, now: ObservedGroup) -> list[Stalled]:
    """Return replicas with a position in two joins that are no nearer to the end at the second."""
    if before.decoded.snapshot.generation == now.decoded.snapshot.generation:
        return []
    lags_before, stalled_copies = copy_lags(before), []
    for key, copy in copy_lags(now).items():
        earlier = lags_before.get(key)
        if (
            earlier is None
            or earlier.lag is None
            or earlier.reported is None
            or copy.reported is None
            or copy.lag is None
        ):
            continue
        if copy.lag >= earlier.lag and not copy.ready and key[1] in _copies(now, key[0]):
            stalled_copies.append(Stalled(copy.process, copy.task, earlier.lag, copy.lag))
    return stalled_copies


def _copies(group: ObservedGroup, process: UUID) -> frozenset[TaskId]:
    return frozenset(task for holder, task in group.copies if holder == process)
