"""Simulated time: one clock and one queue of calls. No other module here has a clock."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
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
        self._numbers = count()

    def at(self, when_ms: int, call: Call, *about: Any) -> None:
        """Schedule ``call(*about)``; for a past time, at once."""
        now_ms = self.now_ms
        heappush(self._queue, (max(now_ms, when_ms), next(self._numbers), None, call, about))

    def after(self, ms: int, call: Call, *about: Any) -> None:
        """Schedule ``call(*about)`` in ``ms``."""
        heappush(self._queue, (self.now_ms + ms, next(self._numbers), None, call, about))

    def later_by(self, who: Doer) -> Callable[..., None]:
        """Return an ``after`` whose calls are made by ``who``."""
        queue, numbers = self._queue, self._numbers

        def later(ms: int, call: Call, *about: Any) -> None:
            heappush(queue, (self.now_ms + ms, next(numbers), who, call, about))

        return later

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
