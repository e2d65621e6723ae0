"""One supervised process: ``python -m kstreams_assign.processes.child DESCRIPTOR NUMBER NAME``.

The descriptor is a socket of the supervisor. The first line that comes is the job; then come requests to close or to
drain. The end of the socket means that the supervisor has died: the process closes too, and does not outlive it for
long. Back go the address of its HTTP server, and why it refuses to run. What must not live here: when a process is
started or ended (``supervision``).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from kstreams_assign.errors import ConfigError, KStreamsAssignError, ShutdownRequested, missing_extra
from kstreams_assign.events import Event, HttpListeningEvent
from kstreams_assign.processes.output import LogLevel, log_to_standard_error, print_json
from kstreams_assign.processes.supervision import Outcome, Request
from kstreams_assign.worker.share import Share, set_share

NUMBER_VARIABLE = "KSTREAMS_ASSIGN_PROCESS"
"""Environment variable with the number of the process, for the application."""
DRAIN_SIGNAL = signal.SIGUSR1
RESTART_SIGNAL = signal.SIGHUP
STATUS = {Outcome.FAILED: 1, Outcome.SHUT_DOWN: 1, Outcome.REFUSED: 2}


class Application(Protocol):
    """What a process runs: a ``Worker`` or a ``Sidecar``."""

    def run(self) -> None: ...

    def close(self, *, restart: bool = False) -> None: ...

    def drain(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """What a process is to run, and how.

    ``place`` (``MODULE:FUNCTION``) with ``arguments`` makes the application. ``http``: address that only the supervisor
    asks. ``processes``: how many there are in all. ``drains``: SIGTERM drains before the close. ``restarts``: SIGTERM
    closes for a restart. ``close_ms``: how long
    a close may take without a supervisor.
    """

    place: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    http: str | None = None
    processes: int = 1
    drains: bool = False
    restarts: bool = False
    close_ms: int = 60_000
    json_log: bool = False
    log_level: LogLevel | None = None

    @property
    def end_request(self) -> Request:
        """What SIGTERM asks for. A drain leaves no task that could wait."""
        if self.drains:
            return Request.DRAIN
        return Request.RESTART if self.restarts else Request.CLOSE

    def as_line(self) -> bytes:
        """Return the job as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Job:
        """Read a line of JSON."""
        values = json.loads(line)
        level = values.pop("log_level")
        return cls(**values, log_level=None if level is None else LogLevel(level))


class Requests:
    """Requests to end, which may come before there is an application that they can be passed to."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt its own thread in here
        self._application: Application | None = None
        self._pending: list[Request] = []

    def connect(self, application: Application) -> None:
        """Pass requests on to the application from now on."""
        with self._lock:
            self._application = application
            for request in self._pending:
                self._pass_on(application, request)

    def make(self, request: Request) -> None:
        """Pass a request on, or keep it until there is an application. From any thread or a signal handler."""
        with self._lock:
            if self._application is None:
                self._pending.append(request)
            else:
                self._pass_on(self._application, request)

    @property
    def has_application(self) -> bool:
        return self._application is not None

    @staticmethod
    def _pass_on(application: Application, request: Request) -> None:
        if request is Request.DRAIN:
            application.drain()
        elif request is Request.RESTART:
            application.close(restart=True)
        else:
            application.close()


class Signals:
    """The signals that ask this process to end. The processes that the application forks do not have its handlers.

    A forked process that took SIGTERM as a request to this one would ignore it, and this one waits for its end.
    """

    def __init__(self, requests: Requests, end: Request) -> None:
        orders = {signal.SIGTERM: end, signal.SIGINT: end, DRAIN_SIGNAL: Request.DRAIN, RESTART_SIGNAL: Request.RESTART}
        self._handlers = {
            number: lambda *_, request=request: requests.make(request) for number, request in orders.items()
        }
        self._before = {number: signal.getsignal(number) for number in orders}
        os.register_at_fork(after_in_child=self._give_back)

    def take(self) -> None:
        """Set the handlers, in place of any others."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _give_back(self) -> None:
        """Set the handlers of before, but leave those that the application has set itself."""
        for number, handler in self._handlers.items():
            before = self._before[number]
            if signal.getsignal(number) is handler and before is not None:  # None: not a handler of Python's
                signal.signal(number, before)


class Supervisor:
    """The supervisor as this process sees it: one socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()

    def read_job(self) -> Job | None:
        """Return the job; None if the supervisor has died before it sent one."""
        line = self._lines.readline()
        return Job.from_line(line) if line else None

    def report(self, **facts: str) -> None:
        """Send facts; a supervisor that has died does not get them."""
        line = json.dumps(facts).encode() + b"\n"
        with self._lock:
            try:
                self._connection.sendall(line)
            except OSError:
                return

    def obey(self, requests: Requests, close_ms: int) -> None:
        """Pass its requests on until it dies; then end this process within ``close_ms``."""
        with suppress(OSError):
            for line in self._lines:
                requests.make(Request(line.decode().strip()))
        _silence_output()  # its readers have died, too
        if requests.has_application:
            requests.make(Request.CLOSE)
            threading.Event().wait(close_ms / 1000)
        os._exit(STATUS[Outcome.FAILED])


def main(words: list[str]) -> None:
    """Run the supervisor's job, and end with the exit status of its outcome."""
    connection = socket.socket(fileno=int(words[0]))
    connection.set_inheritable(False)  # programs that the application starts must not keep it open
    number = int(words[1])
    os.environ[NUMBER_VARIABLE] = words[1]
    cast("Any", sys.stdout).reconfigure(line_buffering=True)
    supervisor = Supervisor(connection)
    job = supervisor.read_job()
    if job is None:
        sys.exit(STATUS[Outcome.FAILED])
    requests = Requests()
    threading.Thread(target=supervisor.obey, args=(requests, job.close_ms), name="supervisor", daemon=True).start()
    signals = Signals(requests, job.end_request)
    signals.take()
    set_share(Share(number, job.http, _listener(number, supervisor, job), job.processes))
    try:
        _run(job, requests, signals)
    except ModuleNotFoundError as cause:
        missing = missing_extra(cause)
        if missing is None:
            raise
        _refuse(supervisor, Outcome.REFUSED, missing)
    except ConfigError as cause:
        _refuse(supervisor, Outcome.REFUSED, cause)
    except ShutdownRequested as cause:
        _refuse(supervisor, Outcome.SHUT_DOWN, cause)
    except KStreamsAssignError as cause:
        sys.stderr.write(f"kstreams-assign: {cause}\n")
        sys.exit(STATUS[Outcome.FAILED])


def _run(job: Job, requests: Requests, signals: Signals) -> None:
    module, _, name = job.place.partition(":")
    make: Callable[..., Application] = getattr(import_module(module), name)
    application = make(**job.arguments)
    log_to_standard_error(job.log_level, json_log=job.json_log)  # what the application has set up comes first
    signals.take()  # the application's own handlers would end this process in its middle
    requests.connect(application)
    application.run()


def _listener(number: int, supervisor: Supervisor, job: Job) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, HttpListeningEvent):
            supervisor.report(http=event.url)
        if job.json_log:
            print_json({**event.as_dict(), "process": number})

    return listen


def _refuse(supervisor: Supervisor, outcome: Outcome, cause: Exception) -> NoReturn:
    """Report the reason, which the supervisor prints once for all processes."""
    supervisor.report(outcome=outcome.value, reason=str(cause))
    sys.exit(STATUS[outcome])


def _silence_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    main(sys.argv[1:])
