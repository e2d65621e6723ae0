"""How fast this process restores, for whoever reads statuses and logs: what is left, the rate, the time left.

Each status tells of every task that is not at its end; a line ``restoring`` comes while a restore takes long. What must not
live here: progress itself (``restore.progress``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreams_assign.model import TaskId
from kstreams_assign.restore.progress import TaskProgress

LONG_MS = 5_000
"""From then on a restore is worth a line."""
AGAIN_MS = 10_000

Paces = dict[str, dict[str, Any]]


def paces(progress: Mapping[TaskId, TaskProgress], now_ms: int) -> Paces:
    """Task -> ``{remaining, offsets_per_s, left_ms}`` of those with offsets left; null where there is too little to tell."""
    behind = {task: one.extended({}, now_ms) for task, one in sorted(progress.items()) if not one.done}
    return {
        str(task): {"remaining": one.remaining, "offsets_per_s": _rounded(one.offsets_per_s), "left_ms": one.left_ms}
        for task, one in behind.items()
    }


class LongRestores:
    """Says when the next line is due: one for all tasks that have been on their way for long. Asked by one thread.

    A copy within ``acceptable_lag`` offsets of its end only follows.
    """

    def __init__(self, acceptable_lag: int) -> None:
        self._acceptable_lag = acceptable_lag
        self._since_ms: dict[str, int] = {}
        self._told_ms: int | None = None

    def line(self, told: Paces, now_ms: int) -> dict[str, Any] | None:
        """Facts of an event ``restoring``: tasks, offsets left, their rate in sum, seconds until the last is there."""
        behind = {task: one for task, one in told.items() if one["remaining"] > self._acceptable_lag}
        self._since_ms = {task: self._since_ms.get(task, now_ms) for task in behind}
        long = [task for task, since_ms in self._since_ms.items() if now_ms - since_ms >= LONG_MS]
        if not long or (self._told_ms is not None and now_ms - self._told_ms < AGAIN_MS):
            return None
        self._told_ms = now_ms
        lefts = [behind[task]["left_ms"] for task in long]
        return {
            "tasks": long,
            "remaining": sum(behind[task]["remaining"] for task in long),
            "offsets_per_s": sum(behind[task]["offsets_per_s"] or 0 for task in long),
            "left_s": None if None in lefts else round(max(lefts) / 1000),
        }


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)
