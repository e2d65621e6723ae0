"""Whether the loop that has the tasks still comes round, by which the group is told that this member is alive (KIP-62)."""

from __future__ import annotations

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.worker.events import EventLog


class Pulse:
    """Asked at each turn of the membership's thread. A client that is not told for ``limit_ms`` leaves the group by itself."""

    def __init__(self, limit_ms: int, log: EventLog) -> None:
        self._limit_ms = limit_ms
        self._log = log
        self._turned_ms: int | None = None
        self._stalled = False

    def alive(self, turned_ms: int | None) -> bool:
        """Whether the loop has come round since it was asked last; ``turned_ms``: when that was, None if it is not to be watched."""
        if turned_ms is None:
            return True
        moved, self._turned_ms = turned_ms != self._turned_ms, turned_ms
        before, self._stalled = self._stalled, monotonic_ms() - turned_ms > self._limit_ms
        if self._stalled and not before:
            why = f"the processing loop has not come round for longer than max_poll_interval_ms = {self._limit_ms}"
            self._log.emit("stalled", warnings=[f"{why}: this member leaves the group, and comes back when it has"])
        return moved
