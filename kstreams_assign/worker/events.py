"""Report events (``kstreams_assign.events``) to a listener and to ``logging``.

The listener runs on the thread where the event happened, one call at a time, and must be quick. What an
operator follows also goes to the logger ``kstreams_assign`` as sentences (``log_lines``), with the warnings of an event
at level WARNING; a warning is not repeated while it lasts.

A thread returns from ``emit`` when its event is delivered, with two exceptions. An event that the listener itself
causes is delivered after the call under way. And the listener may wait for the very thread that reports an event, as it
does in ``Worker.pause``: that thread waits ``PATIENCE_S`` for the call under way, then leaves its events to the
listener's thread. ``ClosedEvent`` waits for every call, so a worker that has returned has delivered its events.

An error of the listener comes out of ``emit`` on the thread that called it, once no event waits any more.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.events import ClosedEvent, Event, EventListener, WithWarnings
from kstreams_assign.worker.log_lines import LogLines, warning_line

LOGGER = logging.getLogger("kstreams_assign")

PATIENCE_S = 0.5
"""How long other threads wait for one call of the listener."""


class EventLog:
    """Stamps events, logs them, and hands them to one listener."""

    def __init__(self, process_id: str, listener: EventListener | None, now_ms: Callable[[], int] = wall_ms) -> None:
        self._process_id = process_id
        self._now_ms = now_ms
        self._listener = listener or (lambda _event: None)
        self._lock = threading.Lock()
        """Held for a moment, to bring the events into one order."""
        self._undelivered: deque[Event] = deque()
        self._turn = threading.Lock()
        """Held by the thread that calls the listener."""
        self._caller: int | None = None
        """That thread; None if there is none."""
        self._patience_s = PATIENCE_S
        """How long a thread waits for the call under way; 0 once another thread has waited in vain."""
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
            self._undelivered.append(stamped)
        if self._caller != threading.get_ident():
            self._deliver(is_last=isinstance(event, ClosedEvent))

    def _deliver(self, *, is_last: bool) -> None:
        errors: list[BaseException] = []
        while self._turn.acquire(timeout=-1 if is_last else self._patience_s):
            try:
                self._caller = threading.get_ident()
                while self._undelivered:
                    self._call(self._undelivered.popleft(), errors)
            finally:
                self._caller = None
                self._turn.release()
            if not self._undelivered:  # a thread without patience may have added an event before the release
                break
        else:  # the thread that calls the listener delivers this one's events, too
            self._patience_s = 0
        if errors:
            raise errors[0]

    def _call(self, event: Event, errors: list[BaseException]) -> None:
        try:
            self._listener(event)
        except BaseException as error:  # noqa: BLE001  # raised again once the other events are delivered
            errors.append(error)
        finally:
            self._patience_s = PATIENCE_S

    def _warn(self, kind: type[Event], warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._warned.get(kind.name, ()):
                LOGGER.warning("%s", warning_line(kind, warning))
        self._warned[kind.name] = warnings
