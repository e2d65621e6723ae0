"""What a worker says about itself: one flat, JSON-able mapping an event, for logs, tests and people.

Every event has ``time_ms`` (wall clock), ``event`` and ``process_id``. The listener runs on whichever thread the event
happened, one call at a time, and must be quick.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kstreams_assign.adapters.clock import wall_ms

Listener = Callable[[Mapping[str, Any]], None]


class EventLog:
    """Stamps events and hands them to one listener."""

    def __init__(self, process_id: str, listener: Listener | None) -> None:
        self._process_id = process_id
        self._listener = listener
        self._lock = threading.Lock()

    def emit(self, event: str, **facts: object) -> None:
        if self._listener is None:
            return
        with self._lock:
            self._listener({"time_ms": wall_ms(), "event": event, "process_id": self._process_id, **facts})
