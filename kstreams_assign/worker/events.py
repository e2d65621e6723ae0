"""What a worker says about itself: one flat, JSON-able mapping an event, for logs, tests and people.

Every event has ``time_ms`` (wall clock), ``event`` and ``process_id``. The listener runs on whichever thread the event
happened, one call at a time, and must be quick. The warnings of an event also go to ``logging``, where a program
that listens to nothing still shows them on standard error; the same ones again are not repeated. What people want to
follow (``TOLD``) goes there at level INFO.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kstreams_assign.adapters.clock import wall_ms

LOGGER = logging.getLogger("kstreams_assign")

TOLD = frozenset(
    {
        *(
            "joining",
            "assigned",
            "restoring",
            "running",
            "lost",
            "broker_unavailable",
            "predecessor_removed",
            "shutdown_requested",
            "closed",
        ),
        *("task_resumed", "listening", "http_listening", "session_began", "session_ended"),
        "batch_limited",
    }
)
"""Events that are for people, too."""

Listener = Callable[[Mapping[str, Any]], None]


class EventLog:
    """Stamps events and hands them to one listener."""

    def __init__(self, process_id: str, listener: Listener | None) -> None:
        self._process_id = process_id
        self._listener = listener
        self._lock = threading.Lock()
        self._warned: dict[str, list[str]] = {}

    def warnings(self) -> dict[str, list[str]]:
        """Event -> the warnings that it came with the last time."""
        return {event: warnings for event, warnings in dict(self._warned).items() if warnings}

    def emit(self, event: str, **facts: object) -> None:
        if isinstance(warnings := facts.get("warnings"), list):
            self._warn(event, warnings)
        if event in TOLD:
            LOGGER.info("%s", as_line(event, facts))
        if self._listener is None:
            return
        with self._lock:
            self._listener({"time_ms": wall_ms(), "event": event, "process_id": self._process_id, **facts})

    def _warn(self, event: str, warnings: list[str]) -> None:
        for warning in warnings:
            if warning not in self._warned.get(event, ()):
                LOGGER.warning("%s: %s", event, warning)
        self._warned[event] = warnings


def as_line(event: str, facts: Mapping[str, object]) -> str:
    """An event for people: its name, and each fact that says something as ``key=value``."""
    told = (f"{key}={_short(value)}" for key, value in facts.items() if value or (value == 0 and value is not False))
    return " ".join((event, *told))


def _short(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
