"""How fast processes restore, from what they told at two joins.

Positions are told at joins only, so two snapshots of one generation tell nothing. Only what was still being read at the
second join counts: a copy at its end may have got there long before.
"""

from __future__ import annotations

from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedGroup, DecodedProcess


def restore_rate(earlier: DecodedGroup, now: ObservedGroup) -> int | None:
    """Offsets a process and second, on average over those that were reading all along; None where nobody was."""
    began_ms, ended_ms = earlier.snapshot.assigned_ms, now.decoded.snapshot.assigned_ms
    if began_ms is None or ended_ms is None or ended_ms <= began_ms:
        return None
    before = {process.process_id: process for process in earlier.processes}
    read = [_read(before[one.process_id], one, now) for one in now.decoded.processes if one.process_id in before]
    busy = [offsets for offsets in read if offsets > 0]
    return max(1, sum(busy) * 1000 // (len(busy) * (ended_ms - began_ms))) if busy else None


def _read(before: DecodedProcess, process: DecodedProcess, now: ObservedGroup) -> int:
    """Offsets read between the joins of what this process had been given and has not read to the end."""
    ends, told = now.end_offset_sums, process.offset_sums
    reading = [task for task in before.active | before.copies if task in ends and 0 <= told.get(task, -1) < ends[task]]
    return sum(told[task] - max(0, before.offset_sums.get(task, 0)) for task in reading)
