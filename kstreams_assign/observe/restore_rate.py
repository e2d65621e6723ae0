"""How fast processes restore, from the positions that they reported at two joins.

Members report positions at joins only, so two snapshots of one generation do not help. Only replicas that were still
reading at the second join count: a replica at its end may have got there long before.
"""

from __future__ import annotations

from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedGroup, DecodedProcess


def restore_rate(earlier: DecodedGroup, now: ObservedGroup) -> int | None:
    """Return offsets per process and second, averaged over processes that were still reading; None without any."""
    began_ms, ended_ms = earlier.snapshot.assigned_ms, now.decoded.snapshot.assigned_ms
    if began_ms is None or ended_ms is None or ended_ms <= began_ms:
        return None
    before = {process.process_id: process for process in earlier.processes}
    read = [
        _read(before[process.process_id], process, now)
        for process in now.decoded.processes
        if process.process_id in before
    ]
    busy = [offsets for offsets in read if offsets > 0]
    return max(1, sum(busy) * 1000 // (len(busy) * (ended_ms - began_ms))) if busy else None


def _read(before: DecodedProcess, process: DecodedProcess, now: ObservedGroup) -> int:
    """Return the offsets read between the joins, of assigned tasks that have not reached their end."""
    ends, sums = now.end_offset_sums, process.offset_sums
    reading = [task for task in before.active | before.copies if task in ends and 0 <= sums.get(task, -1) < ends[task]]
    return sum(sums[task] - max(0, before.offset_sums.get(task, 0)) for task in reading)
