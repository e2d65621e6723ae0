"""The offset sums that this process reports when it joins: one a task.

Sums and not lags: the leader subtracts them from the end offsets (KIP-441, "Rebalance Metadata"). The code that changes
the state keeps the table up to date, because a report must not open a store: it is made between two heartbeats.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.state.directory import StateDirectory, task_order

_log = logging.getLogger(__name__)

OFFSET_SUM_MAX = 2**63 - 1
"""Java pins a sum that overflows to ``Long.MAX_VALUE`` (``TaskManager.sumOfChangelogOffsets``)."""


def offset_sum(next_offsets: Iterable[int]) -> int:
    """Return the sum of next changelog offsets, at most ``OFFSET_SUM_MAX``.

    Raises ``StoreDamaged`` if one is negative.
    """
    total = 0
    for offset in next_offsets:
        if offset < 0:
            raise StoreDamaged(f"the store has the changelog offset {offset}; it must be at least 0")
        total += offset
    return min(total, OFFSET_SUM_MAX)


class _Line(NamedTuple):
    offset_sum: int
    owned: bool


class OffsetSums:
    """The table, shared by the threads of a process.

    The leader takes a task without a line as one to restore in full.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._lines: dict[TaskId, _Line] = {}
        self._in_order = True

    def running(self, task: TaskId) -> None:
        """Set an active task with logged state as running: it has no lag."""
        self._put(task, _Line(RUNNING_OFFSET_SUM, owned=True))

    def restoring(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a standby, a warm-up or a restoring active task. Raises ``StoreDamaged``."""
        self._put(task, _Line(offset_sum(next_offsets.values()), owned=True))

    def dormant(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a task whose stores are closed; without any offset the task is not reported."""
        line = _Line(offset_sum(next_offsets.values()), owned=False)
        if next_offsets:
            self._put(task, line)
        else:
            self.forget(task)

    def forget(self, task: TaskId) -> None:
        """Remove a task whose state is deleted or damaged; no error for an unknown task."""
        with self._guard:
            self._lines.pop(task, None)

    def forget_missing(self, is_there: Callable[[TaskId], bool]) -> None:
        """Remove dormant tasks whose folder another program deleted. Owned tasks are not checked.

        ``is_there`` may be slow, as no lock is held. A task that was opened or closed meanwhile keeps its new line.
        """
        with self._guard:
            dormant = {task: line for task, line in self._lines.items() if not line.owned}
        missing = {task: line for task, line in dormant.items() if not is_there(task)}
        with self._guard:
            for task, line in missing.items():
                if self._lines.get(task) is line:
                    del self._lines[task]

    def report(self, *, owned_only: bool) -> dict[TaskId, int]:
        """Return task -> -2 if it runs, else its offset sum, in order. ``owned_only`` leaves out dormant tasks."""
        with self._guard:
            if not self._in_order:
                self._lines = dict(sorted(self._lines.items(), key=lambda line: task_order(line[0])))
                self._in_order = True
            return {task: line.offset_sum for task, line in self._lines.items() if line.owned or not owned_only}

    def report_kept(self, assigned: AbstractSet[TaskId]) -> dict[TaskId, int]:
        """Return what may be reported without the mutex: the owned tasks of the newest assignment.

        Their folders are locked, so the cleaner does not remove them. Dormant tasks are left out, as it may; so are
        tasks that are about to close, after a lost membership or a revocation: they are dormant in a moment.
        """
        return {task: offset_sum for task, offset_sum in self.report(owned_only=True).items() if task in assigned}

    def _put(self, task: TaskId, line: _Line) -> None:
        with self._guard:
            self._in_order = self._in_order and task in self._lines
            self._lines[task] = line


ReadOffsets = Callable[[TaskId, Path], Mapping[TopicPartition, int]]
"""Next offsets in a closed task folder, of the changelogs that the topology still has."""


def sums_at_start(directory: StateDirectory, read_offsets: ReadOffsets) -> OffsetSums:
    """Return the table of a process that has just started: tasks on disk are dormant; unreadable ones are left out."""
    sums = OffsetSums()
    for task in directory.tasks_on_disk():
        try:
            sums.dormant(task, read_offsets(task, directory.task_path(task)))
        except StateError as error:
            _log.warning("the state of task %s cannot be read and counts as missing: %s", task, error)
    return sums
