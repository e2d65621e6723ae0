"""A run of a process, from its start to its death. Its scheduled calls happen only while it lives and is awake."""

from __future__ import annotations

from typing import Any

from kstreams_assign.sim.timeline import Call, Timeline


class Incarnation:
    """``name`` is for people; ``cut_off``: no message gets through. Calls due while it sleeps are made when it wakes.

    ``later``: the timeline's ``after``, for calls of this run.
    """

    def __init__(self, name: str, timeline: Timeline) -> None:
        self.name = name
        self.alive = self.awake = True
        self.cut_off = False
        self.wire_ms = 0
        self.later = timeline.later_by(self)
        self._missed: list[tuple[Call, tuple[Any, ...]]] = []

    def missed(self, call: Call, about: tuple[Any, ...]) -> None:
        if self.alive:
            self._missed.append((call, about))

    def die(self) -> None:
        self.alive = self.awake = False
        self._missed = []

    def sleep(self) -> None:
        self.awake = False

    def wake(self) -> None:
        """Make the missed calls in order, unless it is dead; calls after it falls asleep again are missed again."""
        self.awake = self.alive
        missed, self._missed = self._missed, []
        for call, about in missed:
            if self.awake:
                call(*about)
            else:
                self.missed(call, about)
