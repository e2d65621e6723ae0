"""A thread that carries on the commit on its way while the processing thread runs the user's function.

What lives here: whose turn it is. What must not: the steps of a commit. The idea: the processing thread drives commits
between two calls, because a thread that competes with running Python code for its interpreter lock waits 5 ms for each
record's acknowledgement. But a call may take longer than a transaction may last, and then waiting for the lock is the
lesser evil.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AFTER_S = 0.05
"""How long a call may take before the commit is carried on beside it."""

INTERVAL_S = 0.02


class BesideCalls:
    """Calls ``advance`` again and again while a call of the user's function takes long, and at no other time.

    An error that ``advance`` raises comes out of ``calling``, on the processing thread.
    """

    def __init__(self, advance: Callable[[], None]) -> None:
        self._advance = advance
        self._turn = threading.Lock()
        self._began_s: float | None = None
        self._error: BaseException | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kstreams-commit-beside", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """The processing thread runs the user's function inside; on the way out ``advance`` is not running any more."""
        self._began_s = time.monotonic()
        try:
            yield
        finally:
            with self._turn:
                self._began_s = None
            if self._error is not None:  # also where the function raised: a commit that met it must not go on
                error, self._error = self._error, None
                raise error

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL_S):
            with self._turn:
                began_s = self._began_s
                if began_s is None or time.monotonic() - began_s < AFTER_S or self._error is not None:
                    continue
                try:
                    self._advance()
                except BaseException as error:  # noqa: BLE001  # raised again on the processing thread
                    self._error = error
