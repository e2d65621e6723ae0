"""Whether the processing loop still turns, by which the group knows that this member is alive (KIP-62)."""

from __future__ import annotations

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.events import StalledEvent
from kstreams_assign.worker.events import EventLog


class Pulse:
    """Watch the loop: a client without a sign of life for ``limit_ms`` leaves the group."""

    def __init__(self, limit_ms: int, log: EventLog) -> None:
        self._limit_ms = limit_ms
        self._log = log
        self._turned_ms: int | None = None
        self._stalled = False

    @property
    def stalled(self) -> bool:
        """Whether one call takes longer than the limit, as of the last look."""
        return self._stalled

    def alive(self, turned_ms: int | None) -> bool:
        """Return whether the loop has turned since the last call.

        ``turned_ms``: when the loop turned last; None if it is not watched.
        """
        if turned_ms is None:
            return True
        moved, self._turned_ms = turned_ms != self._turned_ms, turned_ms
        before, self._stalled = self._stalled, monotonic_ms() - turned_ms > self._limit_ms
        if self._stalled and not before:
            why = f"one call of a function takes longer than max_poll_interval_ms = {self._limit_ms}"
            self._log.emit(StalledEvent(warnings=(f"{why}: this member leaves the group until the call returns",)))
        return moved
