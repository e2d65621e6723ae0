"""Tasks that cannot work here: why, and when each is tried again. Rules over values; the restore thread keeps them.

A damaged store is thrown away and made anew at once, the first time. Whatever fails again, and what only a person can mend
(space, rights), stops the task: it is tried after 1 s, then after twice as long each time, at most after a minute. What
must not be here: a clock, a store.
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
    """``pauses`` so far; ``retry_at_ms`` (monotonic) is None where it is looked for all the time, or being tried now.

    ``told``: it is known as stopped.
    """

    reason: str
    pauses: int = 0
    retry_at_ms: int | None = None
    told: bool = False
    trying: bool = False


class Stops:
    """The tasks with trouble that is not over. Changed by one thread; any may look."""

    def __init__(self, first_pause_ms: int = FIRST_PAUSE_MS) -> None:
        self._first_pause_ms = first_pause_ms
        self._stops: Mapping[TaskId, Stop] = {}

    def waits(self, task: TaskId) -> bool:
        """Whether it is to be tried again later."""
        stop = self._stops.get(task)
        return stop is not None and stop.retry_at_ms is not None

    def told(self) -> dict[TaskId, Stop]:
        """Those that are known as stopped, tried at this moment or not."""
        return {task: stop for task, stop in self._stops.items() if stop.told}

    def begin_anew(self, task: TaskId, error: StateError) -> bool:
        """Whether to do so at once, which is once only."""
        if not isinstance(error, StoreDamaged) or task in self._stops:
            return False
        self._put(task, Stop(str(error)))
        return True

    def pause(self, task: TaskId, reason: str, now_ms: int) -> tuple[int, bool]:
        """It stops, or goes on being stopped: for how long, and whether that is news."""
        before = self._stops.get(task, Stop(reason))
        pause_ms = min(self._first_pause_ms << min(before.pauses, 10), PAUSE_MAX_MS)
        self._put(task, Stop(reason, before.pauses + 1, now_ms + pause_ms, told=True))
        return pause_ms, not before.told

    def missing(self, task: TaskId, reason: str) -> None:
        """It waits for something that is looked for all the time."""
        self._put(task, replace(self._stops.get(task, Stop(reason)), reason=reason, told=True, trying=False))

    def due(self, now_ms: int) -> list[TaskId]:
        """Those to be tried now; they no longer wait."""
        due = [
            task for task, stop in self._stops.items() if stop.retry_at_ms is not None and stop.retry_at_ms <= now_ms
        ]
        for task in due:
            self._put(task, replace(self._stops[task], retry_at_ms=None, trying=True))
        return due

    def over(self, task: TaskId) -> bool:
        """It works, or it is not here any more; whether it was known as stopped."""
        stop = self._stops.get(task)
        self._stops = {other: its for other, its in self._stops.items() if other != task}
        return stop is not None and stop.told

    def _put(self, task: TaskId, stop: Stop) -> None:
        self._stops = {**self._stops, task: stop}
