"""How long a task pauses after its commit failed, before it is restored and runs again.

What must not live here: what a failure is, or what happens after the pause. Used on the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kstreams_assign.model import TaskId

FIRST_MS, LONGEST_MS = 100, 10_000
_DOUBLINGS_MAX = 10


class Setbacks:
    """Failures in a row, and the tasks that pause because of them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._in_a_row: dict[TaskId, int] = {}
        self._due_ms: dict[TaskId, int] = {}

    def rest(self, task: TaskId) -> int:
        """Note another failure; return the pause in milliseconds, twice as long as the last."""
        before = self._in_a_row.get(task, 0)
        self._in_a_row[task] = before + 1
        pause_ms = min(FIRST_MS << min(before, _DOUBLINGS_MAX), LONGEST_MS)
        self._due_ms[task] = self._now_ms() + pause_ms
        return pause_ms

    def rested(self) -> list[TaskId]:
        """Return the tasks whose pause is over, once."""
        now_ms = self._now_ms()
        over = [task for task, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for task in over:
            del self._due_ms[task]
        return over

    def wake(self, task: TaskId) -> None:
        """End the pause of a task, as something else is asked of it."""
        self._due_ms.pop(task, None)

    def well(self, tasks: Iterable[TaskId]) -> None:
        """Note that these tasks have committed, so their next failure is a first one."""
        if self._in_a_row:
            for task in tasks:
                self._in_a_row.pop(task, None)
