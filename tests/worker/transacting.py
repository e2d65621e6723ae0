"""A worker under exactly once in its own process, so that a test can kill it, or stop and wake it.

``python -m tests.worker.transacting BROKER NAME STATE_DIR POINT``: counts words as ``tests.worker.app`` does and prints
its events. At ``POINT`` (``begun``, ``offsets-sent``, ``committed``, or ``never``) of the first commit that has records
it sends itself SIGSTOP; the parent process decides how it goes on.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kstreams_assign import Config, Subtopology, Worker
from kstreams_assign.adapters.confluent import TransactionalProducer
from tests.worker.app import PATIENCE_S, count

SESSION_TIMEOUT_MS = 6_000
SETTINGS: Mapping[str, Any] = {
    "processing_guarantee": "exactly_once_v2",
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "acceptable_recovery_lag": 100,
}


class Process:
    """The program as its parent sees it. Ends with the ``with`` block, even after an error."""

    def __init__(self, broker: str, name: str, state_dir: Path, point: str = "never") -> None:
        command = [sys.executable, "-m", "tests.worker.transacting", broker, name, str(state_dir), point]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events: list[Mapping[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()

    def until_event(self, name: str, timeout_s: float = PATIENCE_S) -> None:
        with self._news:
            assert self._news.wait_for(lambda: any(e["event"] == name for e in self.events), timeout_s), name

    def until_stopped(self) -> None:
        """Wait until it has stopped at its point."""
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _stopping(call: Callable[..., None], *, before: bool) -> Callable[..., None]:
    """Return the same call; the first that comes with or after offsets stops the process."""
    done = False

    def stopping(self: TransactionalProducer, *arguments: Any) -> None:
        nonlocal done
        if before and not done:
            done = True
            os.kill(os.getpid(), signal.SIGSTOP)
        call(self, *arguments)
        if not before and not done:
            done = True
            os.kill(os.getpid(), signal.SIGSTOP)

    return stopping


POINTS: Mapping[str, tuple[str, bool]] = {
    "begun": ("send_offsets", True),
    "offsets-sent": ("commit", True),
    "committed": ("commit", False),
}
"""Where to stop -> the producer's call, and whether before or after it."""


def main(broker: str, name: str, state_dir: str, point: str) -> None:
    if point in POINTS:
        method, before = POINTS[point]
        setattr(TransactionalProducer, method, _stopping(getattr(TransactionalProducer, method), before=before))
    faulthandler.register(signal.SIGUSR1)
    config = Config(application_id=name, bootstrap_servers=broker, state_dir=state_dir, **SETTINGS)
    topology = [Subtopology(process=count, sources=[name], stores=["totals"], sinks=[f"{name}-counts"])]
    Worker(config, topology, on_event=lambda event: print(json.dumps(event.as_dict()), flush=True)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
