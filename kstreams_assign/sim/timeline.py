"""Simulated time: one clock and one queue of calls. No other module here has a clock."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

START_MS = 1_000_000_000

Call = Callable[..., None]


class Doer(Protocol):
    """Makes calls only while it is ``awake``; calls that were due while it slept go to ``missed``."""

    awake: bool

    def missed(self, call: Call, about: tuple[Any, ...]) -> None: ...


class Timeline:
    """Calls in the order of their time; those of the same millisecond in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._queue: list[tuple[int, int, Doer | None, Call, tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when_ms: int, call: Call, *about: Any) -> None:
        """Schedule ``call(*about)``; for a past time, at once."""
        self._number = number = self._number + 1
        heappush(self._queue, (max(when_ms, self.now_ms), number, None, call, about))

    def after(self, ms: int, call: Call, *about: Any) -> None:
        """Schedule ``call(*about)`` in ``ms``."""
        self.done_by(None, ms, call, *about)

    def done_by(self, who: Doer | None, ms: int, call: Call, *about: Any) -> None:
        """Schedule ``call(*about)``, made by ``who``, in ``ms``."""
        self._number = number = self._number + 1
        heappush(self._queue, (self.now_ms + ms, number, who, call, about))

    def run(self, until_ms: int, done: Callable[[], object] | None = None) -> bool:
        """Make the calls up to ``until_ms``, or until ``done()`` is true after a call; return whether it was."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            self.now_ms, _, who, call, about = heappop(queue)
            if who is None or who.awake:
                call(*about)
            else:
                who.missed(call, about)
            if done is not None and done():
                return True
        self.now_ms = until_ms
        return False
