"""The lags of the tasks whose positions a program of its own loop reports: end offsets less what is reported.

What must not live here: how the end offsets are asked for (``leading``), and whether a lag is small (``engine``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.state.lags import OffsetSums

ENDS_INTERVAL_MS = 1_000
"""How old end offsets may be."""


class ReportedLags:
    """Called by one thread after the other: each call returns the lags of now. Times are milliseconds of one clock."""

    def __init__(
        self,
        sums: OffsetSums,
        end_offset_sums: Callable[[Iterable[TaskId]], Mapping[TaskId, int]],
        clock_ms: Callable[[], int],
    ) -> None:
        self._sums = sums
        self._end_offset_sums = end_offset_sums
        self._clock_ms = clock_ms
        self._asked_ms: int | None = None
        self._ends: Mapping[TaskId, int] = {}

    def __call__(self) -> Mapping[TaskId, int]:
        """Return the offsets that each task's state lacks, by the positions of now; it may wait for a look-up.

        A task of which nothing was reported is missing, and so is one whose end offsets are not known.
        """
        sums = self._sums.report(owned_only=True)
        behind = [task for task, offset_sum in sums.items() if offset_sum != RUNNING_OFFSET_SUM]
        if behind and (self._asked_ms is None or self._clock_ms() >= self._asked_ms + ENDS_INTERVAL_MS):
            self._ends = self._end_offset_sums(behind)
            self._asked_ms = self._clock_ms()
        return lags_of(sums, self._ends)


def lags_of(sums: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> dict[TaskId, int]:
    """Return each task's lag; 0 for one that runs. ``ends`` may be older than the positions, so no lag is negative."""
    running = {task: 0 for task, offset_sum in sums.items() if offset_sum == RUNNING_OFFSET_SUM}
    return running | {task: max(0, ends[task] - sums[task]) for task in sums.keys() & ends.keys() - running.keys()}
