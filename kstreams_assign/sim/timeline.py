"""Simulated time: one clock and one queue of what is to happen. Nothing else in this room knows what time it is."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

START_MS = 1_000_000_000

Call = Callable[..., None]


class Doer(Protocol):
    """Who does things only while it is ``awake``, and otherwise hears of what it has ``missed``."""

    awake: bool

    def missed(self, call: Call, about: tuple[Any, ...]) -> None: ...


class Timeline:
    """Calls in the order of their time; those of one millisecond in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._queue: list[tuple[int, int, Doer | None, Call, tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when_ms: int, call: Call, *about: Any) -> None:
        """Call it with ``about`` then, or at once if that is past."""
        self._number = number = self._number + 1
        heappush(self._queue, (max(when_ms, self.now_ms), number, None, call, about))

    def after(self, ms: int, call: Call, *about: Any) -> None:
        """Call it with ``about`` in ``ms``."""
        self.done_by(None, ms, call, *about)

    def done_by(self, who: Doer | None, ms: int, call: Call, *about: Any) -> None:
        """In ``ms`` ``who`` calls it with ``about``."""
        self._number = number = self._number + 1
        heappush(self._queue, (self.now_ms + ms, number, who, call, about))

    def run(self, until_ms: int, done: Callable[[], object] | None = None) -> bool:
        """Let it happen until then, or until ``done``, which is asked after every call. Whether ``done`` ended it."""
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
