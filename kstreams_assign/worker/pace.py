"""How fast this process restores, for statuses and logs: the offsets left, the rate, the time left.

Each status has every task that is not at its end; an event ``restoring`` follows while a restore takes long. What must
not live here: progress itself (``restore.progress``).
"""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.events import RestorePace, RestoringEvent
from kstreams_assign.model import TaskId
from kstreams_assign.restore.progress import TaskProgress

LONG_MS = 5_000
"""A restore that takes longer gets events of its own."""
REPORT_INTERVAL_MS = 10_000


def paces(progress: Mapping[TaskId, TaskProgress], now_ms: int) -> dict[str, RestorePace]:
    """Return the pace of each task with offsets left."""
    behind = {task: each.extended({}, now_ms) for task, each in sorted(progress.items()) if not each.done}
    return {
        str(task): RestorePace(remaining=at.remaining, offsets_per_s=_rounded(at.offsets_per_s), left_ms=at.left_ms)
        for task, at in behind.items()
    }


class LongRestores:
    """Return a ``RestoringEvent`` when it is due: one for all restores that take long. For one thread.

    A replica within ``acceptable_lag`` offsets of its end only follows, and does not count.
    """

    def __init__(self, acceptable_lag: int) -> None:
        self._acceptable_lag = acceptable_lag
        self._since_ms: dict[str, int] = {}
        self._reported_ms: int | None = None

    def due(self, current: Mapping[str, RestorePace], now_ms: int) -> RestoringEvent | None:
        """Return the event for the restores that take long; None if none is due."""
        behind = {task: pace for task, pace in current.items() if pace.remaining > self._acceptable_lag}
        self._since_ms = {task: self._since_ms.get(task, now_ms) for task in behind}
        long = [task for task, since_ms in self._since_ms.items() if now_ms - since_ms >= LONG_MS]
        if not long or (self._reported_ms is not None and now_ms - self._reported_ms < REPORT_INTERVAL_MS):
            return None
        self._reported_ms = now_ms
        lefts = [behind[task].left_ms for task in long]
        known = [left_ms for left_ms in lefts if left_ms is not None]
        return RestoringEvent(
            tasks=tuple(long),
            remaining=sum(behind[task].remaining for task in long),
            offsets_per_s=sum(behind[task].offsets_per_s or 0 for task in long),
            left_s=round(max(known) / 1000) if len(known) == len(lefts) else None,
        )


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)
