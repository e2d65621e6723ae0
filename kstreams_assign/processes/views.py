"""What a supervisor shows of its processes, as values."""

from __future__ import annotations

from dataclasses import dataclass

from kstreams_assign.processes.supervision import State


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One process. ``pid`` and ``url`` (of its HTTP server) are None while it does not run or is not known."""

    number: int
    state: State
    restarts: int
    pid: int | None = None
    url: str | None = None
    restart_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SupervisorView:
    """All processes, by number. ``ending``: all of them were asked to end."""

    processes: tuple[ProcessView, ...]
    ending: bool = False
