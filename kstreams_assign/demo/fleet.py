"""Worker processes: start, commands, events, stop and kill.

Each has one thread, which starts it, puts its events into one queue, and waits for its end. Linux ties a child to the
thread that started it, so that thread lives as long as the child. What must not live here: what events mean
(``fleet_state``).
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from types import TracebackType
from typing import Any, Self

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.local import tie

WORKER_COMMAND = (sys.executable, "-m", "kstreams_assign.demo.worker")

Event = Mapping[str, Any]
"""A worker's event with its name as ``worker``. The fleet adds ``started`` and ``exited`` (with its ``status``)."""


class Fleet:
    """Workers by name. As a context manager it leaves no process behind, however the block ends."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._workers: dict[str, _WorkerProcess] = {}
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._workers):
            self.kill(name)

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start a worker; one of the same name must have ended."""
        command = [*self._command, "--name", name, *arguments]
        self._workers[name] = _WorkerProcess(name, command, self.log(name), self._events)

    def log(self, name: str) -> Path:
        """Where the worker's standard error goes."""
        return self._folder / f"{name}.log"

    def tell(self, name: str, line: str) -> None:
        """Write one line to a worker's standard input."""
        self._workers[name].tell(line)

    def kill(self, name: str) -> None:
        """End a worker at once, as a crash would. Returns when it is gone."""
        self._workers[name].signal(signal.SIGKILL)
        self._workers[name].ended.wait()

    def stop(self, names: Sequence[str], patience_s: float) -> None:
        """Ask workers to close, all at once, and wait; a worker that takes longer than ``patience_s`` is killed."""
        for name in names:
            self._workers[name].signal(signal.SIGTERM)
        for name in names:
            if not self._workers[name].ended.wait(patience_s):
                self.kill(name)

    def heard(self, timeout_s: float) -> Iterator[Event]:
        """What workers said since the last call, oldest first; waits for the first of it only."""
        try:
            yield self._events.get(timeout=timeout_s)
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return


class _WorkerProcess:
    """One process and its thread."""

    def __init__(self, name: str, command: Sequence[str], log: Path, events: queue.SimpleQueue[Event]) -> None:
        self.ended = Signal()
        self._name = name
        # tie.py kills it with us, even when we are killed.
        self._command = [sys.executable, "-I", "-S", str(Path(tie.__file__)), str(os.getpid()), *command]
        self._log = log
        self._events = events
        started: Future[subprocess.Popen[str]] = Future()
        Thread(target=self._live, args=(started,), name=f"worker {name}", daemon=True).start()
        self._process = started.result()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _live(self, started: Future[subprocess.Popen[str]]) -> None:
        try:
            process = self._popen()
        except OSError as error:
            started.set_exception(error)
            return
        self._say({"time_ms": wall_ms(), "event": "started", "pid": process.pid})
        started.set_result(process)
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):  # a kill may cut the last one
                    self._say(json.loads(line))
        self._say({"time_ms": wall_ms(), "event": "exited", "status": process.returncode})
        self.ended.set()

    def _popen(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # a Ctrl-C in the terminal reaches us alone
            )

    def _say(self, event: Event) -> None:
        self._events.put({**event, "worker": self._name})
