"""How fast processes restore, from the positions that they reported at two joins.

Members report positions at joins only, so two snapshots of one generation do not help. Only replicas that were still
reading at the second join count: a replica at its end may have got there long before.
"""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.model import TaskId
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedGroup, DecodedProcess
from kstreams_assign.observe.snapshot import GroupSnapshot


def restore_rate(earlier: DecodedGroup, now: ObservedGroup) -> int | None:
    """Return offsets per process and second, averaged over processes that were still reading; None without any."""
    began_ms, ended_ms = earlier.snapshot.assigned_ms, now.decoded.snapshot.assigned_ms
    if began_ms is None or ended_ms is None or ended_ms <= began_ms:
        return None
    before = {process.process_id: process for process in earlier.processes}
    ends_before = _ends(earlier.snapshot, now)
    read = [
        _read(before[process.process_id], ends_before, process, now.end_offset_sums)
        for process in now.decoded.processes
        if process.process_id in before
    ]
    busy = [offsets for offsets in read if offsets > 0]
    return max(1, sum(busy) * 1000 // (len(busy) * (ended_ms - began_ms))) if busy else None


def _ends(snapshot: GroupSnapshot, now: ObservedGroup) -> Mapping[TaskId, int]:
    """Return the end offset sums at an earlier snapshot, of tasks whose changelogs had all been looked up."""
    ends = snapshot.end_offsets
    return {task: sum(ends[log] for log in logs) for task, logs in now.changelogs.items() if ends.keys() >= {*logs}}


def _read(
    before: DecodedProcess, ends_before: Mapping[TaskId, int], process: DecodedProcess, ends: Mapping[TaskId, int]
) -> int:
    """Return the offsets read between the joins, of assigned tasks that have not reached their end.

    A task counts if its position at the first join is known: 0 without state. That of a running task
    (``RUNNING_OFFSET_SUM``) is not. Of a process that reports lags only tasks count whose end before is known.
    """
    sums, sums_before = process.positions(ends), before.positions(ends_before)
    reading = [task for task in before.active | before.copies if task in ends and 0 <= sums.get(task, -1) < ends[task]]
    if before.report.task_lags is not None:
        reading = [task for task in reading if task in ends_before]
    starts = {task: sums_before.get(task, 0) for task in reading}
    return sum(sums[task] - start for task, start in starts.items() if start >= 0)
