"""One run of a process, from its start to its death: what it has asked to happen later happens only while it lives and is awake."""

from __future__ import annotations

from kstreams_assign.sim.timeline import Call, Timeline


class Incarnation:
    """``name`` is for people. ``cut_off``: the wire is. Time passes while it sleeps; what was due then is done when it wakes."""

    def __init__(self, name: str, timeline: Timeline) -> None:
        self.name = name
        self.alive = True
        self.asleep = False
        self.cut_off = False
        self.wire_ms = 0
        self._timeline = timeline
        self._missed: list[Call] = []

    def later(self, ms: int, call: Call) -> None:
        self._timeline.after(ms, lambda: self._due(call))

    def _due(self, call: Call) -> None:
        if not self.alive:
            return
        if self.asleep:
            self._missed.append(call)
        else:
            call()

    def die(self) -> None:
        self.alive = False
        self._missed = []

    def sleep(self) -> None:
        self.asleep = True

    def wake(self) -> None:
        """Do what was due, in its order."""
        self.asleep = False
        missed, self._missed = self._missed, []
        for call in missed:
            self._due(call)
