"""A counting application in any language as a process: JSON lines out, commands in. Its command line is elsewhere."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
PATIENCE_S = 90.0
"""For a process to start or to reach a state beside several others on a busy machine. Fast runs wait no longer."""

STACKS_S = 5.0
"""For the answer of a process that a test has given up."""


def arguments(
    bootstrap_servers: str, application_id: str, state_dir: Path, *own: str, settings: Mapping[str, object] | None
) -> list[str]:
    """Return an application's arguments: its place, then its ``own``, then its settings as key=value."""
    pairs = [f"{key}={value}" for key, value in (settings or {}).items()]
    return [bootstrap_servers, application_id, str(state_dir), *own, *pairs]


class AppProcess:
    """One instance: started, listened to, closed or killed. Each event is kept with its wall-clock time ``heard_s``."""

    def __init__(self, command: Sequence[str]) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def active(self) -> list[str]:
        return self._tasks("active")

    @property
    def standby(self) -> list[str]:
        """Standbys and warm-ups, which Java does not distinguish."""
        return self._tasks("standby")

    def until(self, wanted: Callable[[Sequence[Event]], bool], timeout_s: float = PATIENCE_S) -> None:
        """Wait until the events satisfy ``wanted``."""
        with self._news:
            assert self._news.wait_for(lambda: wanted(self.events), timeout_s), self.events[-3:]

    def until_tasks(self, *, active: int, standby: int = 0) -> None:
        self.until(lambda _: self.has_tasks(active=active, standby=standby))

    def has_tasks(self, *, active: int, standby: int = 0) -> bool:
        """Return whether the instance runs with this many tasks."""
        return self.running and (len(self.active), len(self.standby)) == (active, standby)

    def signs(self, client_id: str) -> bool:
        """Return whether a member with this client id is (a thread of) this instance."""
        return any(client_id.startswith(thread) for thread in self._tasks("threads"))

    @property
    def running(self) -> bool:
        states = [event["state"] for event in self.named("state")]
        return states[-1:] == ["RUNNING"]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stacks(self) -> str:
        """Return where each thread of a Python application is now; "" of another application."""
        with suppress(BrokenPipeError, AssertionError):
            self.tell("stacks")
            self.until(lambda _: bool(self.named("stacks")), STACKS_S)
        return "".join(str(event["text"]) for event in self.named("stacks"))

    def until_ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process ends by itself; return its exit status."""
        status = self._process.wait(timeout_s)
        self._listener.join(PATIENCE_S)
        return status

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event["event"] == name]

    def tell(self, line: str) -> None:
        """Write a command to the process's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Leave the group and end."""
        with suppress(BrokenPipeError):  # it has just ended by itself
            if self.alive:
                self.tell("close")
        self._end()

    def kill(self) -> None:
        """End without leaving, like a machine that fails."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join(PATIENCE_S)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.events.append({**json.loads(line), "heard_s": time.time()})
                self._news.notify_all()

    def _tasks(self, fact: str) -> list[str]:
        reported = [event[fact] for event in self.named("tasks")]
        return list(reported[-1]) if reported else []
