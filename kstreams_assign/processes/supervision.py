"""When a supervised process is started, asked to end, and killed, as one machine. Pure: events in, effects out.

What must not live here: processes, signals and clocks (``supervisor``, ``child``). Times are monotonic milliseconds.

- A process that fails is started again after a rest (``rests``).
- A process that ends with success was closed or drained on its own. It is not started again, the others continue, and
  the supervisor ends with the last of them.
- A process that refuses its call or configuration ends all: the others have the same. So does a shutdown of the whole
  application, which every process obeys.
- To end means to ask all processes at once. If they were asked in turn, the tasks of the first would move to the next,
  and would move again with that one. A process that does not end within its time is killed.
- A request during an end is passed on if it ends the processes sooner. Only SIGTERM or Ctrl-C kills, and only if one of
  them came before: the first may follow another signal, or an end that the supervisor has begun itself.
- A stop may be delivered twice: ``timeout`` signals its child, and then its whole process group. So a stop within a
  second of the first is the same stop, and does not kill.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from kstreams_assign.processes.rests import next_rest_ms


class Outcome(Enum):
    """How a process ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"  # a wrong call or a wrong setting
    SHUT_DOWN = "shut_down"  # a member asked the whole application to end


class State(Enum):
    """What a process does now."""

    RUNNING = "running"
    RESTING = "resting"  # it failed and waits to be started again
    ENDED = "ended"


class Request(Enum):
    """What a process is asked to do."""

    CLOSE = "close"
    DRAIN = "drain"
    RESTART = "restart"


SAME_STOP_MS = 1_000
"""SIGTERM or Ctrl-C within this time of the first one is the same stop."""

SLOWEST_FIRST = (Request.DRAIN, Request.RESTART, Request.CLOSE)


# --- effects --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    number: int


@dataclass(frozen=True, slots=True)
class Ask:
    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class Kill:
    number: int


Effect = Start | Ask | Kill


# --- the machine ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a process may take to close, and to drain before that."""

    close_ms: int
    drain_ms: int


@dataclass(slots=True)
class _Process:
    state: State = State.RUNNING
    started_ms: int = 0
    rest_ms: int = 0
    restart_at_ms: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process at one moment. ``restart_at_ms`` means something while it rests."""

    number: int
    state: State
    restarts: int
    restart_at_ms: int


@dataclass(slots=True)
class _End:
    """That all processes were asked to end, when they are asked or killed next, and whether all of them obey.

    ``stopped_ms``: when SIGTERM or Ctrl-C first asked for it; None if neither has.
    """

    request: Request
    deadline_ms: int
    stopped_ms: int | None = None
    killed: bool = False
    failed: set[int] = field(default_factory=set)


class Supervision:
    """Processes 0 to ``count`` - 1, from ``begin`` until ``is_over``."""

    def __init__(self, count: int, limits: Limits) -> None:
        self._limits = limits
        self._processes = {number: _Process() for number in range(count)}
        self._end: _End | None = None

    @property
    def is_over(self) -> bool:
        """Whether no process runs, and none will be started."""
        return all(process.state is State.ENDED for process in self._processes.values())

    @property
    def is_ending(self) -> bool:
        """Whether all processes were asked to end."""
        return self._end is not None

    @property
    def unclean(self) -> tuple[int, ...]:
        """The processes that failed or were killed after they had been asked to end."""
        return tuple(sorted(self._end.failed)) if self._end else ()

    def states(self) -> tuple[ProcessState, ...]:
        """Return the state of every process, by number."""
        return tuple(
            ProcessState(number, process.state, process.restarts, process.restart_at_ms)
            for number, process in self._processes.items()
        )

    def begin(self, now_ms: int) -> list[Effect]:
        """Start all processes."""
        return [self._start(number, now_ms) for number in self._processes]

    def ended(self, number: int, outcome: Outcome, now_ms: int) -> list[Effect]:
        """Take note that a process has ended."""
        process = self._processes[number]
        process.state = State.ENDED
        if self._end is not None:
            if outcome is Outcome.FAILED:
                self._end.failed.add(number)
            return []
        if outcome in {Outcome.REFUSED, Outcome.SHUT_DOWN}:
            return self.end(Request.CLOSE, now_ms, is_stop=False)
        if outcome is Outcome.FAILED:
            process.state = State.RESTING
            process.rest_ms = next_rest_ms(process.rest_ms, now_ms - process.started_ms)
            process.restart_at_ms = now_ms + process.rest_ms
        return []

    def end(self, request: Request, now_ms: int, *, is_stop: bool) -> list[Effect]:
        """Ask every process to end, also one that was asked for a slower end before.

        ``is_stop``: SIGTERM or Ctrl-C asks; another one kills, ``SAME_STOP_MS`` or more after the first.
        """
        end = self._end
        if end is not None and end.killed:
            return []
        if is_stop and end is not None and end.stopped_ms is not None and now_ms - end.stopped_ms >= SAME_STOP_MS:
            return self._kill()
        for process in self._processes.values():
            if process.state is State.RESTING:
                process.state = State.ENDED
        is_sooner = end is None or SLOWEST_FIRST.index(request) > SLOWEST_FIRST.index(end.request)
        effects = self._ask(request, now_ms) if is_sooner else []
        if is_stop and self._end is not None and self._end.stopped_ms is None:
            self._end.stopped_ms = now_ms
        return effects

    def turn(self, now_ms: int) -> list[Effect]:
        """Do what is due: start processes that have rested, or go on with those that did not end in time."""
        if self._end is None:
            due = [number for number, process in self._processes.items() if self._is_due(process, now_ms)]
            for number in due:
                self._processes[number].restarts += 1
            return [self._start(number, now_ms) for number in due]
        if now_ms < self._end.deadline_ms:
            return []
        if self._end.request is Request.DRAIN:
            return self._ask(Request.CLOSE, now_ms)
        return self._kill()

    @staticmethod
    def _is_due(process: _Process, now_ms: int) -> bool:
        return process.state is State.RESTING and process.restart_at_ms <= now_ms

    def _start(self, number: int, now_ms: int) -> Effect:
        process = self._processes[number]
        process.state, process.started_ms = State.RUNNING, now_ms
        return Start(number)

    def _ask(self, request: Request, now_ms: int) -> list[Effect]:
        limit_ms = self._limits.drain_ms if request is Request.DRAIN else self._limits.close_ms
        before = self._end or _End(request, 0)
        self._end = replace(before, request=request, deadline_ms=now_ms + limit_ms)
        return [Ask(number, request) for number in self._running()]

    def _kill(self) -> list[Effect]:
        """Kill every process that still runs, once."""
        if self._end is None or self._end.killed:
            return []
        self._end.killed = True
        return [Kill(number) for number in self._running()]

    def _running(self) -> list[int]:
        return [number for number, process in self._processes.items() if process.state is State.RUNNING]
