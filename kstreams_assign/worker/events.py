"""Report events to a listener and to ``logging``. Their names and fields are described in ``kstreams_assign.events``.

The listener runs on the thread where the event happened, one call at a time, and must be quick. What an
operator follows also goes to the logger ``kstreams_assign`` as sentences (``log_lines``), with the warnings of an event
at level WARNING; a warning is not repeated while it lasts.
"""

from __future__ import annotations

import logging
import threading
from typing import cast

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.events import Event, EventListener
from kstreams_assign.worker.log_lines import LogLines, warning_line

LOGGER = logging.getLogger("kstreams_assign")


class EventLog:
    """Stamps events, logs them, and hands them to one listener."""

    def __init__(self, process_id: str, listener: EventListener | None) -> None:
        self._process_id = process_id
        self._listener = listener
        self._lock = threading.Lock()
        self._lines = LogLines()
        self._warned: dict[str, list[str]] = {}

    def warnings(self) -> dict[str, list[str]]:
        """Event -> the warnings that it came with the last time."""
        return {event: warnings for event, warnings in dict(self._warned).items() if warnings}

    def emit(self, event: str, **facts: object) -> None:
        """Report an event that ``kstreams_assign.events`` describes, with its fields."""
        stamped = {"time_ms": wall_ms(), "event": event, "process_id": self._process_id, **facts}
        with self._lock:
            for line in self._lines.lines(stamped):
                LOGGER.log(line.level, "%s", line.text)
            if isinstance(warnings := facts.get("warnings"), list):
                self._warn(event, warnings)
            if self._listener is not None:
                self._listener(cast("Event", stamped))

    def _warn(self, event: str, warnings: list[str]) -> None:
        for warning in warnings:
            if warning not in self._warned.get(event, ()):
                LOGGER.warning("%s", warning_line(event, warning))
        self._warned[event] = warnings
