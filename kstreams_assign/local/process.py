"""A child process that is always waited for, and that may be tied to its parent's life.

The thread that starts the child also waits for it. Linux ties a child to the *thread* that started it, so that thread
has to live as long as the child, whichever thread called us.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

_TIE = Path(__file__).with_name("tie.py")

START_S = 10.0
"""How long an interrupted parent waits for a child that may just have started."""


class ChildProcess:
    """One running command, its output in a file.

    With ``tied`` it is killed when this process ends, however it ends. It has a session of its own, so a
    Ctrl-C in the terminal reaches only this process, which stops the child in order.
    """

    def __init__(self, command: Sequence[str], log: Path, *, tied: bool, holds: int) -> None:
        """Start ``command``; ``holds`` is a file descriptor that the child keeps open."""
        self.ended = Event()
        self._holds = holds
        self._command = [sys.executable, "-I", "-S", str(_TIE), str(os.getpid()), *command] if tied else list(command)
        self._log = log
        started: Future[subprocess.Popen[bytes]] = Future()
        try:
            Thread(target=self._live, args=(started,), name="local broker", daemon=True).start()
            self._process = started.result()
        except KeyboardInterrupt:
            with suppress(OSError):  # the thread has not begun, or has no child
                self._process = started.result(START_S)
                self.kill()
            raise

    def _live(self, started: Future[subprocess.Popen[bytes]]) -> None:
        try:
            process = self._start()
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()
        self.ended.set()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[self._holds],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def terminate(self, patience_s: float) -> None:
        """Send SIGTERM; after ``patience_s`` kill it. Returns when it has ended."""
        self._process.send_signal(signal.SIGTERM)
        if not self.ended.wait(patience_s):
            self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would. Returns when it has ended."""
        self._process.send_signal(signal.SIGKILL)
        self.ended.wait()
