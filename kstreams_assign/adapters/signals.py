"""An end that a signal handler may ask for, and that the main thread awaits.

``threading.Event`` serves neither side. Its ``set`` takes a lock that the interrupted thread may hold, which then waits
for itself. Its ``wait`` without a timeout never returns if the signal came a moment before it, or reached another
thread: Python runs the handler in the main thread, and only when that executes Python code again.
"""

from __future__ import annotations

import queue
import time
from contextlib import suppress

_SLICE_S = 0.1
"""How long a signal may remain unnoticed."""


class EndRequest:
    """Has been made or not; it cannot be withdrawn. Any thread and any signal handler may call every method."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()  # ``put`` is reentrant

    def set(self) -> None:
        """Make the request; a second one changes nothing."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether the request was made, at the latest after ``timeout_s`` seconds."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            slice_s = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
            if slice_s <= 0:
                break
            with suppress(queue.Empty):
                self._wakes.get(timeout=slice_s)
        return self._is_set
