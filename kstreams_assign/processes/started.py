"""A started process as its supervisor has it: a fresh interpreter, its output, and a socket to talk over.

A fresh interpreter, and no fork, as threads and the Kafka clients' sockets do not survive a fork. The process has a
process group of its own, so that Ctrl-C in a terminal reaches the supervisor alone. The socket is closed by the system
when the supervisor dies, however it dies.
"""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, cast

from kstreams_assign.processes.child import Job
from kstreams_assign.processes.output import Outlet
from kstreams_assign.processes.supervision import Outcome, Request

LAST_WORDS_S = 2.0
"""How long to wait for the rest of the output. A program that the application started may keep the pipes open."""


@dataclass(frozen=True, slots=True)
class HttpKnown:
    """The address of a process's HTTP server is known."""

    number: int
    url: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has ended, or could not be started.

    ``status`` is its exit status, negative for a signal; ``reason`` why it refused to run, or could not be started.
    """

    number: int
    status: int
    outcome: Outcome
    reason: str


Report = HttpKnown | Ended


class StartedProcess:
    """Starts a process when it is made. ``report`` is called from other threads; ``Ended`` comes last.

    Raises ``OSError`` if the system has no memory, file or thread left for it.
    """

    def __init__(
        self, number: int, name: str, job: Job, out: Outlet, err: Outlet, report: Callable[[Report], None]
    ) -> None:
        self._number = number
        self._report = report
        self._outcome: Outcome | None = None
        self._reason = ""
        self._ends = threading.Event()
        self._connection, theirs = socket.socketpair()
        try:
            with theirs:
                self._popen = _popen(theirs, number, name)
        except OSError:
            self._connection.close()
            raise
        self._send(job.as_line())
        try:
            self._start_threads(out, err)
        except RuntimeError as cause:
            self._popen.kill()
            self._popen.wait()
            self._connection.close()
            raise OSError(errno.EAGAIN, str(cause)) from cause

    def _start_threads(self, out: Outlet, err: Outlet) -> None:
        prefix = f"[{self._number}] ".encode()
        lines = ((self._popen.stdout, out, b""), (self._popen.stderr, err, prefix))
        readers = [
            self._thread(partial(outlet.pass_on, cast("IO[bytes]", pipe), mark, self._ends))
            for pipe, outlet, mark in lines
        ]
        readers.append(self._thread(self._read_facts))
        self._thread(lambda: self._await_end(readers))

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ask(self, request: Request) -> None:
        """Ask it to close or to drain. From now on its output does not wait for a stalled reader."""
        self._ends.set()
        self._send(request.value.encode() + b"\n")

    def kill(self) -> None:
        """End it at once, and without its consent."""
        self._popen.kill()

    def _send(self, line: bytes) -> None:
        with suppress(OSError):  # it has just ended, which is reported
            self._connection.sendall(line)

    def _read_facts(self) -> None:
        with self._connection.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                facts = json.loads(line)
                if "http" in facts:
                    self._report(HttpKnown(self._number, facts["http"]))
                else:
                    self._outcome, self._reason = Outcome(facts["outcome"]), facts["reason"]

    def _await_end(self, readers: list[threading.Thread]) -> None:
        status = self._popen.wait()
        self._ends.set()
        for reader in readers:
            reader.join(LAST_WORDS_S)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        outcome = self._outcome or (Outcome.FAILED if status else Outcome.DONE)
        self._report(Ended(self._number, status, outcome, self._reason))

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"process-{self._number}", daemon=True)
        thread.start()
        return thread


def _popen(connection: socket.socket, number: int, name: str) -> subprocess.Popen[bytes]:
    module = "kstreams_assign.processes.child"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(connection.fileno()), str(number), name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[connection.fileno()],
        process_group=0,
    )
