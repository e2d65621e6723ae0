"""Tasks that cannot work here: why, and when each is tried again. Rules over values, for the restore thread.

A damaged store is discarded and restored at once, the first time. A task that fails again, or for want of what only an
operator can mend (space, rights), stops: it is tried after 1 s, then after twice as long each time, at most after a
minute. What must not live here: a clock, a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TaskId

FIRST_PAUSE_MS = 1_000
PAUSE_MAX_MS = 60_000


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a task does not work. ``pauses``: how many it has had.

    ``retry_at_ms`` (monotonic) is None while the task is tried, or if it waits for something that is looked for all the
    time. ``reported``: the task is known as stopped.
    """

    reason: str
    pauses: int = 0
    retry_at_ms: int | None = None
    reported: bool = False
    trying: bool = False


class Stops:
    """The tasks whose trouble is not over. One thread changes it; any thread may read it."""

    def __init__(self, first_pause_ms: int = FIRST_PAUSE_MS) -> None:
        self._first_pause_ms = first_pause_ms
        self._stops: Mapping[TaskId, Stop] = {}

    def waits(self, task: TaskId) -> bool:
        """Return whether the task is tried again later."""
        stop = self._stops.get(task)
        return stop is not None and stop.retry_at_ms is not None

    def stopped(self) -> dict[TaskId, Stop]:
        """Return the tasks that are known as stopped, also while they are tried."""
        return {task: stop for task, stop in self._stops.items() if stop.reported}

    def start_over(self, task: TaskId, error: StateError) -> bool:
        """Return whether to discard the store and restore it at once, which happens once only."""
        if not isinstance(error, StoreDamaged) or task in self._stops:
            return False
        self._put(task, Stop(str(error)))
        return True

    def pause(self, task: TaskId, reason: str, now_ms: int) -> tuple[int, bool]:
        """Stop a task, or keep it stopped; return the pause in milliseconds, and whether the stop is new."""
        before = self._stops.get(task, Stop(reason))
        pause_ms = min(self._first_pause_ms << min(before.pauses, 10), PAUSE_MAX_MS)
        self._put(task, Stop(reason, before.pauses + 1, now_ms + pause_ms, reported=True))
        return pause_ms, not before.reported

    def missing(self, task: TaskId, reason: str) -> None:
        """Stop a task that waits for something that is looked for all the time."""
        self._put(task, replace(self._stops.get(task, Stop(reason)), reason=reason, reported=True, trying=False))

    def due(self, now_ms: int) -> list[TaskId]:
        """Return the tasks to be tried now; they no longer wait."""
        due = [
            task for task, stop in self._stops.items() if stop.retry_at_ms is not None and stop.retry_at_ms <= now_ms
        ]
        for task in due:
            self._put(task, replace(self._stops[task], retry_at_ms=None, trying=True))
        return due

    def over(self, task: TaskId) -> bool:
        """Forget a task that works, or that is not here any more; return whether it was known as stopped."""
        ended = self._stops.get(task)
        self._stops = {other: stop for other, stop in self._stops.items() if other != task}
        return ended is not None and ended.reported

    def _put(self, task: TaskId, stop: Stop) -> None:
        self._stops = {**self._stops, task: stop}
