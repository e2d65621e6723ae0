"""Run an application in several processes: the shell around ``supervision``.

What lives here: signals, the clock, started processes, the log, and the HTTP endpoint for all of them. Only the thread
of ``run`` changes anything, and it never waits for a reader of the output; other threads put reports into a queue, or
read the last view.
"""

from __future__ import annotations

import logging
import queue
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.errors import ConfigError, ShutdownRequested
from kstreams_assign.events import Event, WithWarnings
from kstreams_assign.model import HostInfo
from kstreams_assign.processes.asking import ask
from kstreams_assign.processes.child import DRAIN_SIGNAL, RESTART_SIGNAL, STATUS, Job
from kstreams_assign.processes.endpoint import Endpoint
from kstreams_assign.processes.output import Outlet, json_line
from kstreams_assign.processes.started import Ended, HttpKnown, Report, StartedProcess
from kstreams_assign.processes.supervision import Ask, Effect, Kill, Limits, Outcome, Request, Start, State, Supervision
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.server import StatusServer
from kstreams_assign.worker.log_lines import LogLines

TURN_S = 0.1
"""How long a signal may remain unnoticed, and a rest may last too long."""
DRAIN_MS = 600_000
"""How long processes may drain before they are closed: as long as ``kstreams-assign drain`` waits."""
LOOPBACK = "127.0.0.1:0"

_log = logging.getLogger("kstreams_assign")


@dataclass(frozen=True, slots=True)
class Call:
    """What the supervisor is to run.

    ``name``: for the list of processes of the operating system. ``jobs``: one for each process, by number; their
    ``http`` and ``close_ms`` are the supervisor's.
    """

    name: str
    jobs: tuple[Job, ...]
    http: HostInfo | None = None


@dataclass(frozen=True, slots=True)
class _Signalled:
    """What a signal asks for. ``is_stop``: it was SIGTERM or Ctrl-C."""

    request: Request
    is_stop: bool


class Supervisor:
    """Runs the processes of one call, once. Raises ``ConfigError`` where it cannot listen at ``http``.

    ``out`` and ``err`` are standard output and standard error, for it and its processes.
    """

    def __init__(self, call: Call, out: Outlet, err: Outlet) -> None:
        self._call = call
        first = call.jobs[0]
        self._json_log = first.json_log
        self._supervision = Supervision(len(call.jobs), Limits(first.close_ms, DRAIN_MS))
        self._end_request = first.end_request
        self._processes: dict[int, StartedProcess] = {}
        self._urls: dict[int, str] = {}
        self._reports: queue.SimpleQueue[Report | _Signalled] = queue.SimpleQueue()
        self._out, self._err = out, err
        self._refused: Ended | None = None
        self._view = SupervisorView(())
        self._http = None if call.http is None else StatusServer(call.http)

    def run(self) -> bool:
        """Start the processes, and return once all have ended: whether all obeyed, if they were asked to.

        Call it from the main thread. Raises ``ConfigError`` if a process refuses its call or a setting, and
        ``ShutdownRequested`` if a member asked the whole application to end.
        """
        with self._signals():
            try:
                self._run()
            finally:
                for process in self._processes.values():  # none is left, unless this supervisor has failed
                    process.kill()
                if self._http is not None:
                    self._http.stop()
        if self._refused is not None:
            kind = ConfigError if self._refused.outcome is Outcome.REFUSED else ShutdownRequested
            raise kind(self._refused.reason)
        return not self._supervision.unclean

    def _run(self) -> None:
        self._carry_out(self._supervision.begin(monotonic_ms()))
        if self._http is not None:
            self._http.serve(
                Endpoint(lambda: self._view, ask).answer, _ServerLog(self._out if self._json_log else None)
            )
        while not self._supervision.is_over:
            with suppress(queue.Empty):
                self._take(self._reports.get(timeout=TURN_S))
            self._carry_out(self._supervision.turn(monotonic_ms()))

    def _take(self, report: Report | _Signalled) -> None:
        if isinstance(report, HttpKnown):
            self._urls[report.number] = report.url
        elif isinstance(report, Ended):
            self._take_end(report)
        else:
            self._end(report)

    def _take_end(self, ended: Ended) -> None:
        number = ended.number
        self._processes.pop(number, None)  # it is absent if it could not be started
        self._urls.pop(number, None)
        was_ending = self._supervision.is_ending
        now_ms = monotonic_ms()
        effects = self._supervision.ended(number, ended.outcome, now_ms)
        if ended.outcome in {Outcome.REFUSED, Outcome.SHUT_DOWN} and self._refused is None:
            self._refused = ended
        state = self._supervision.states()[number]
        rest_ms = state.restart_at_ms - now_ms if state.state is State.RESTING else None
        self._report_end(ended, rest_ms, was_ending=was_ending)
        self._carry_out(effects)

    def _report_end(self, ended: Ended, rest_ms: int | None, *, was_ending: bool) -> None:
        how = _how(ended)
        if rest_ms is not None:
            text = f"Process {ended.number} {how}; it is started again in {rest_ms / 1000:.0f} s."
        elif was_ending or ended.outcome is not Outcome.DONE:
            text = f"Process {ended.number} {how}."
        else:
            text = f"Process {ended.number} {how}, as it was closed or drained on its own; it is not started again."
        level = logging.WARNING if ended.outcome is Outcome.FAILED else logging.INFO
        facts = {"process": ended.number, "status": ended.status, "restart_in_ms": rest_ms}
        self._tell("process_ended", facts, text, level)

    def _end(self, signalled: _Signalled) -> None:
        running, request = len(self._processes), signalled.request
        was_ending = self._supervision.is_ending
        effects = self._supervision.end(request, monotonic_ms(), is_stop=signalled.is_stop)
        if any(isinstance(effect, Kill) for effect in effects):
            text = f"Asked to end a second time: processes that still run are killed ({running})."
        elif effects or not was_ending:
            text = f"The processes are asked to {request.value} ({running})."
        else:
            text = f"Asked to {request.value}: the processes are ending already ({running})."
        self._tell("processes_asked", {"request": request.value}, text, logging.INFO)
        self._carry_out(effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start(number):
                    self._start(number)
                case Ask(number, request):
                    self._processes[number].ask(request)
                case Kill(number):
                    text = f"Process {number} is killed."
                    self._tell("process_killed", {"process": number}, text, logging.WARNING)
                    self._processes[number].kill()
        self._view = self._look()

    def _start(self, number: int) -> None:
        job = self._call.jobs[number]
        try:
            process = StartedProcess(number, self._call.name, job, self._out, self._err, self._reports.put)
        except OSError as cause:  # the system lacks something for a while: the other processes continue
            self._take_end(Ended(number, STATUS[Outcome.FAILED], Outcome.FAILED, str(cause)))
            return
        self._processes[number] = process
        facts = {"process": number, "pid": process.pid}
        self._tell("process_started", facts, f"Process {number} is started (pid {process.pid}).", logging.INFO)

    def _look(self) -> SupervisorView:
        now_ms = monotonic_ms()
        return SupervisorView(
            tuple(
                ProcessView(
                    state.number,
                    state.state,
                    state.restarts,
                    pid=process.pid if (process := self._processes.get(state.number)) else None,
                    url=self._urls.get(state.number),
                    restart_in_ms=max(0, state.restart_at_ms - now_ms) if state.state is State.RESTING else None,
                )
                for state in self._supervision.states()
            ),
            ending=self._supervision.is_ending,
        )

    def _tell(self, event: str, facts: Mapping[str, Any], text: str, level: int) -> None:
        _log.log(level, "%s", text)
        if self._json_log:
            self._out.write(json_line({"time_ms": wall_ms(), "event": event, **facts}))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Take signals as requests to end; a handler only puts one into the queue, which a handler may do.

        SIGHUP remains ignored if it was, as by ``nohup``: then it only means that a terminal was closed.
        """

        def take(number: int, _frame: FrameType | None) -> None:
            requests: dict[int, Request] = {DRAIN_SIGNAL: Request.DRAIN, RESTART_SIGNAL: Request.RESTART}
            self._reports.put(_Signalled(requests.get(number, self._end_request), is_stop=number not in requests))

        taken = [signal.SIGTERM, signal.SIGINT, DRAIN_SIGNAL]
        if signal.getsignal(RESTART_SIGNAL) is not signal.SIG_IGN:
            taken.append(RESTART_SIGNAL)
        before = {number: signal.signal(number, take) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _ServerLog:
    """Where the HTTP server reports what it does."""

    def __init__(self, events: Outlet | None) -> None:
        self._events = events

    def emit(self, event: Event) -> None:
        for line in LogLines().lines(event):
            _log.log(line.level, "%s", line.text)
        if isinstance(event, WithWarnings):
            for warning in event.warnings:
                _log.warning("%s", warning)
        if self._events is not None:
            self._events.write(json_line(replace(event, time_ms=wall_ms()).as_dict()))


def _how(ended: Ended) -> str:
    if ended.outcome is Outcome.FAILED and ended.reason:
        return f"could not be started: {ended.reason}"
    if ended.status < 0:
        return f"was ended by {_signal_name(-ended.status)}"
    return "has ended" if ended.status == 0 else f"ended with exit status {ended.status}"


def _signal_name(number: int) -> str:
    """Return the name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
