"""When a member of a streams group reports how far its copies are (KIP-1071, version 1 of the heartbeat).

It reports standbys and warm-ups: after each change of its tasks, then at the brokers' interval, and a warm-up that has
caught up with the next heartbeat. A report has only what has changed. The coordinator shows it to who describes the
group, and later brokers assign by it. What must not live here: where positions come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.wire.streams_structs import TaskOffset


@dataclass(frozen=True, slots=True)
class Positions:
    """Sums over a task's changelogs: the next ``offsets`` of its state here, and the ``ends``, as far as known."""

    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    ends: Mapping[TaskId, int] = field(default_factory=dict)


def positions_of(sums: Mapping[TaskId, int], lags: Mapping[TaskId, int]) -> Positions:
    """Return the positions of tasks that do not run, from what ``OffsetSums`` has and the lags that are known."""
    offsets = {task: offset_sum for task, offset_sum in sums.items() if offset_sum != RUNNING_OFFSET_SUM}
    return Positions(offsets, {task: offsets[task] + lag for task, lag in lags.items() if task in offsets})


Rows = tuple[TaskOffset, ...] | None
"""``None``: unchanged."""


class OffsetReports:
    """Times are milliseconds of one clock, from the caller."""

    def __init__(self) -> None:
        self._due_ms = 0
        self._copies: frozenset[TaskId] | None = frozenset()
        self._offsets: Mapping[TaskId, int] | None = {}
        self._ends: Mapping[TaskId, int] | None = {}
        """What the coordinator knows; None: that is not known here."""

    def forget(self) -> None:
        """The coordinator may know nothing of this member any more, or what was before a report that was lost."""
        self._due_ms, self._copies, self._offsets, self._ends = 0, None, None, None

    def is_due(self, copies: frozenset[TaskId], warmups: Collection[TaskId], now_ms: int) -> bool:
        """Return whether the next heartbeat may have a report, and ``report`` needs to know the positions."""
        return bool(warmups) or copies != self._copies or (bool(copies) and now_ms >= self._due_ms)

    def report(
        self,
        positions: Positions,
        copies: frozenset[TaskId],
        warmups: Collection[TaskId],
        acceptable_lag: int,
        interval_ms: int,
        now_ms: int,
    ) -> tuple[Rows, Rows]:
        """Return the offsets and end offsets to report. ``acceptable_lag``: how far behind a warm-up may be; -1: none.

        A report after a change of tasks is due until the positions of all copies are known.
        """
        offsets, ends = _of(positions.offsets, copies), _of(positions.ends, copies)
        caught_up = any(
            task in offsets and task in ends and ends[task] - offsets[task] <= acceptable_lag for task in warmups
        )
        if not caught_up and copies == self._copies and now_ms < self._due_ms:
            return None, None
        if offsets.keys() >= copies:
            self._copies, self._due_ms = copies, now_ms + interval_ms
        rows = _changed(offsets, self._offsets), _changed(ends, self._ends)
        self._offsets, self._ends = offsets, ends
        return rows


def _of(sums: Mapping[TaskId, int], copies: frozenset[TaskId]) -> dict[TaskId, int]:
    return {task: sums[task] for task in sorted(copies) if task in sums}


def _changed(sums: Mapping[TaskId, int], before: Mapping[TaskId, int] | None) -> Rows:
    if sums == before:
        return None
    return tuple(TaskOffset(str(task.subtopology), task.partition, offset) for task, offset in sums.items())
