"""How long a task rests after its commit failed, before it is restored and runs again.

What lives here: one growing pause a task. What must not: what a failure is, or what is done when the rest is over. Used on
the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kstreams_assign.model import TaskId

FIRST_MS, LONGEST_MS = 100, 10_000
_DOUBLINGS_MAX = 10


class Setbacks:
    """Failures in a row, and who rests because of them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._in_a_row: dict[TaskId, int] = {}
        self._due_ms: dict[TaskId, int] = {}

    def rest(self, task: TaskId) -> int:
        """Another failure: the task rests for twice as long as after the last, in milliseconds."""
        before = self._in_a_row.get(task, 0)
        self._in_a_row[task] = before + 1
        pause_ms = min(FIRST_MS << min(before, _DOUBLINGS_MAX), LONGEST_MS)
        self._due_ms[task] = self._now_ms() + pause_ms
        return pause_ms

    def rested(self) -> list[TaskId]:
        """Those whose rest is over; told once."""
        now_ms = self._now_ms()
        over = [task for task, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for task in over:
            del self._due_ms[task]
        return over

    def wake(self, task: TaskId) -> None:
        """Something else is asked of it: it rests no longer."""
        self._due_ms.pop(task, None)

    def well(self, tasks: Iterable[TaskId]) -> None:
        """These have committed: the next failure is a first one."""
        if self._in_a_row:
            for task in tasks:
                self._in_a_row.pop(task, None)
