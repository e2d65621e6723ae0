"""What this process would report of its state if it joined now: one offset sum a task.

Sums and not lags: the leader subtracts them from the end offsets (KIP-441, "Rebalance Metadata"). The table is kept up
to date by those who change the state, because a report must not open a store: it is made between two heartbeats.
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
    """Sum of a task's next changelog offsets, at most ``OFFSET_SUM_MAX``. Raises ``StoreDamaged`` for a negative one."""
    total = 0
    for offset in next_offsets:
        if offset < 0:
            raise StoreDamaged(f"a changelog offset of {offset} makes no sense")
        total += offset
    return min(total, OFFSET_SUM_MAX)


class _Line(NamedTuple):
    offset_sum: int
    owned: bool


class OffsetSums:
    """The table, shared by the threads of a process. A task without a line is unknown to the leader: all to restore."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._lines: dict[TaskId, _Line] = {}
        self._in_order = True

    def running(self, task: TaskId) -> None:
        """An active task with logged state that is at work: it lacks nothing."""
        self._put(task, _Line(RUNNING_OFFSET_SUM, owned=True))

    def restoring(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """A standby, a warm-up or an active task on its way stands here. Raises ``StoreDamaged`` (see ``offset_sum``)."""
        self._put(task, _Line(offset_sum(next_offsets.values()), owned=True))

    def dormant(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """The task's stores are closed and hold this; without any offset there is nothing to offer."""
        line = _Line(offset_sum(next_offsets.values()), owned=False)
        if next_offsets:
            self._put(task, line)
        else:
            self.forget(task)

    def forget(self, task: TaskId) -> None:
        """Its state is gone or damaged. Fine for a task that has no line."""
        with self._guard:
            self._lines.pop(task, None)

    def forget_gone(self, is_there: Callable[[TaskId], bool]) -> None:
        """Forget the dormant tasks whose state is not there: somebody else took it away. What is owned is never asked about.

        ``is_there`` may take its time, as nobody waits for it. A task that was opened or closed meanwhile has a new line, which stays.
        """
        with self._guard:
            dormant = {task: line for task, line in self._lines.items() if not line.owned}
        gone = {task: line for task, line in dormant.items() if not is_there(task)}
        with self._guard:
            for task, line in gone.items():
                if self._lines.get(task) is line:
                    del self._lines[task]

    def report(self, *, owned_only: bool) -> dict[TaskId, int]:
        """Task -> -2 if it runs, else its offset sum; in order. ``owned_only`` leaves out the dormant tasks."""
        with self._guard:
            if not self._in_order:
                self._lines = dict(sorted(self._lines.items(), key=lambda line: task_order(line[0])))
                self._in_order = True
            return {task: line.offset_sum for task, line in self._lines.items() if line.owned or not owned_only}

    def report_kept(self, assigned: AbstractSet[TaskId]) -> dict[TaskId, int]:
        """What may be told without the mutex: of the newest assignment's tasks those that are owned.

        Their folders are locked, and the cleaner never touches one that is. Dormant tasks are no promise that can be kept, nor are those
        on their way to be closed, after a lost membership or because they were taken away: they are dormant in a moment.
        """
        return {task: told for task, told in self.report(owned_only=True).items() if task in assigned}

    def _put(self, task: TaskId, line: _Line) -> None:
        with self._guard:
            self._in_order = self._in_order and task in self._lines
            self._lines[task] = line


ReadOffsets = Callable[[TaskId, Path], Mapping[TopicPartition, int]]
"""Next offsets in a closed task folder, of the changelogs that the topology still has."""


def sums_at_start(directory: StateDirectory, read_offsets: ReadOffsets) -> OffsetSums:
    """The table of a process that has just started: everything on disk is dormant. What cannot be read is left out."""
    sums = OffsetSums()
    for task in directory.tasks_on_disk():
        try:
            sums.dormant(task, read_offsets(task, directory.task_path(task)))
        except StateError as error:
            _log.warning("the state of task %s counts as missing: %s", task, error)
    return sums
