"""``kstreams-assign run`` as a process, with its output, its HTTP endpoint and its children."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil

from tests.worker.app import App, until

ROOT = Path(__file__).parent.parent.parent
WITHIN_S = 90


class Supervised:
    """A supervisor with its children; ``end`` or the end of the test ends them."""

    def __init__(self, command: Sequence[str | Path], cwd: Path = ROOT, **environment: str) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "kstreams_assign", *command],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def counting(cls, app: App, *options: str, worker: str = "make_worker", **settings: Any) -> Supervised:
        """Run the counting application."""
        all_settings = {
            "application_id": app.name,
            "bootstrap_servers": app.broker,
            "state_dir": str(app.folder / "state"),
            "acceptable_recovery_lag": 100,
            **settings,
        }
        environment = {"WORDS_SETTINGS": json.dumps(all_settings)}
        if worker == "worker":
            environment["WORDS_AT_IMPORT"] = "yes"
        command = ["run", f"tests.processes.words:{worker}", "--http", "127.0.0.1:0", *options]
        return cls(command, **environment)

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def until_line(self, pattern: str) -> re.Match[str]:
        """Wait for a line of the output; return the match."""

        def match() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._news:
            assert self._news.wait_for(lambda: match() or not self._reader.is_alive(), WITHIN_S), self.lines
            matched = match()
        assert matched, self.lines
        return matched

    def ask(self, path: str, accept: str = "") -> tuple[int, str]:
        """Return status and body of the endpoint."""
        port = int(self.until_line(r"status page are at http://127\.0\.0\.1:(\d+)/")[1])
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def status(self) -> Mapping[str, Any]:
        return dict(json.loads(self.ask("/status.json")[1]))

    def until_status(self, wanted: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """Ask until the status is as wanted; return it."""
        statuses: list[Mapping[str, Any]] = []

        def met() -> bool:
            assert self.popen.poll() is None, self.lines
            statuses.append(self.status())
            return wanted(statuses[-1])

        until(met, WITHIN_S)
        return statuses[-1]

    def until_spread(self, tasks: int) -> Mapping[str, Any]:
        """Wait until every process runs some tasks and all together run so many; return the status."""
        return self.until_status(lambda status: all(_running(status)) and sum(_running(status)) == tasks)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.popen.pid).children(recursive=True)

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and return its exit status."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        status = self.popen.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        return status

    def clean_up(self) -> None:
        """End what the test has left."""
        if self.popen.poll() is None:
            children = self.children()
            self.popen.kill()
            self.popen.wait(WITHIN_S)
            psutil.wait_procs(children, WITHIN_S)
        self._reader.join(WITHIN_S)
        assert self.popen.stdout is not None
        self.popen.stdout.close()


def _running(status: Mapping[str, Any]) -> list[int]:
    statuses = [process["status"] for process in status["processes"]]
    return [sum(task["state"] == "running" for task in own["tasks"]) if own else 0 for own in statuses]
