"""The orders to a thread of a simulated process. They are carried out in order, each a little later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

SLOWEST_ORDER_MS = 20


class Inbox:
    """The inbox of one thread."""

    def __init__(self, process: Process) -> None:
        self._run = process.run
        self._timeline = process.world.timeline
        self._rng = process.world.rng
        self._last_ms = self._timeline.now_ms

    def put(self, call: Callable[..., None], *about: object) -> None:
        """Have ``call(*about)`` made after all earlier orders."""
        now_ms = self._timeline.now_ms
        self._last_ms = max(self._last_ms, now_ms + self._rng.randint(0, SLOWEST_ORDER_MS))
        self._run.later(self._last_ms - now_ms, call, *about)
