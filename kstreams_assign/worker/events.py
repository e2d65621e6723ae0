"""Report events (``kstreams_assign.events``) to a listener and to ``logging``.

The listener runs on the thread where the event happened, one call at a time, and must be quick. What an
operator follows also goes to the logger ``kstreams_assign`` as sentences (``log_lines``), with the warnings of an event
at level WARNING; a warning is not repeated while it lasts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.events import Event, EventListener, WithWarnings
from kstreams_assign.worker.log_lines import LogLines, warning_line

LOGGER = logging.getLogger("kstreams_assign")


class EventLog:
    """Stamps events, logs them, and hands them to one listener."""

    def __init__(self, process_id: str, listener: EventListener | None, now_ms: Callable[[], int] = wall_ms) -> None:
        self._process_id = process_id
        self._now_ms = now_ms
        self._listener = listener
        self._lock = threading.Lock()
        self._lines = LogLines()
        self._warned: dict[str, Sequence[str]] = {}

    def warnings(self) -> dict[str, Sequence[str]]:
        """Name of an event -> the warnings that it came with the last time."""
        return {event: warnings for event, warnings in dict(self._warned).items() if warnings}

    def emit(self, event: Event) -> None:
        """Report an event, with the time and this process."""
        stamped = replace(event, time_ms=self._now_ms(), process_id=self._process_id)
        with self._lock:
            for line in self._lines.lines(stamped):
                LOGGER.log(line.level, "%s", line.text)
            if isinstance(stamped, WithWarnings):
                self._warn(type(stamped), stamped.warnings)
            if self._listener is not None:
                self._listener(stamped)

    def _warn(self, kind: type[Event], warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._warned.get(kind.name, ()):
                LOGGER.warning("%s", warning_line(kind, warning))
        self._warned[kind.name] = warnings
