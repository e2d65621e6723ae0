"""Simulated time: one clock and one queue of what is to happen. Nothing else in this room knows what time it is."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

START_MS = 1_000_000_000

Call = Callable[[], None]


class Timeline:
    """Calls in the order of their time; those of one millisecond in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._queue: list[tuple[int, int, Call]] = []
        self._number = count()

    def at(self, when_ms: int, call: Call) -> None:
        heappush(self._queue, (max(when_ms, self.now_ms), next(self._number), call))

    def after(self, ms: int, call: Call) -> None:
        heappush(self._queue, (self.now_ms + ms, next(self._number), call))

    def run(self, until_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Let it happen until then, or until ``done``, which is asked after every call. Whether ``done`` ended it."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            self.now_ms, _, call = heappop(queue)
            call()
            if done is not None and done():
                return True
        self.now_ms = until_ms
        return False
