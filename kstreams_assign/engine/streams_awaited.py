"""The tasks that should come to a member of a streams group soon, and for how long it asks for them often.

A task that its owner has released is silent until its new owner's next heartbeat.
"""

from __future__ import annotations

from kstreams_assign.engine.streams_events import AwaitingEnded
from kstreams_assign.model import TaskId

AWAITING_INTERVAL_MS, AWAITING_MS = 200, 60_000
"""How often a member asks for tasks that should come soon, and for how long."""


class AwaitedTasks:
    """Times are milliseconds of one clock, from the caller."""

    def __init__(self) -> None:
        self._tasks: frozenset[TaskId] | None = None
        self._until_ms: int | None = None
        """It begins with the first answer to a member that awaits any."""

    def add(self, tasks: frozenset[TaskId]) -> None:
        """Await these tasks, too."""
        self._tasks, self._until_ms = tasks | (self._tasks or frozenset()), None

    @property
    def are_missing(self) -> bool:
        """Whether there are tasks to ask for."""
        return self._tasks is not None

    def look_for(self, assigned: frozenset[TaskId], sent_ms: int) -> AwaitingEnded | None:
        """Return the end of the waiting, if it ends with the answer to the heartbeat that was sent then.

        Where no task is awaited, it ends with the first answer: that ends the warm-ups of the join.
        """
        if self._tasks is None:
            return None
        if self._until_ms is None:
            self._until_ms = sent_ms + AWAITING_MS
        missing = self._tasks - assigned
        if missing and sent_ms < self._until_ms:
            return None
        ended, self._tasks, self._until_ms = AwaitingEnded(self._tasks, missing), None, None
        return ended
