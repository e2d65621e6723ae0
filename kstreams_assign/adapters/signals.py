"""An end that a signal handler may ask for, and that the main thread awaits.

``threading.Event`` serves neither side. Its ``set`` takes a lock that the interrupted thread may hold, which then waits
for itself. Its ``wait`` without a timeout never returns if the signal came a moment before it, or reached another
thread: Python runs the handler in the main thread, and only when that executes Python code again. (Nor does
``queue.SimpleQueue``: where several threads get, a timeout that has just passed becomes an endless wait in CPython.)
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

_SLICE_S = 0.1
"""How long a signal may remain unnoticed."""


class EndRequest:
    """Has been made or not; it cannot be withdrawn. Any thread and any signal handler may call every method."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()  # closed until the request is made; to open it never blocks
        self._gate.acquire()

    def set(self) -> None:
        """Make the request; a second one changes nothing."""
        self._is_set = True
        self._open()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether the request was made, at the latest after ``timeout_s`` seconds."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            slice_s = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
            if slice_s <= 0:
                break
            if self._gate.acquire(timeout=slice_s):
                self._open()  # for the next thread that waits
        return self._is_set

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open
            self._gate.release()
