"""A counting worker in its own process, to be killed: ``python -m tests.worker.process SETTINGS``, a JSON object."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kstreams_assign import Config, Event, Record, Store, Subtopology, Task, Worker
from kstreams_assign.worker.on_error import OnError
from tests.worker.app import PATIENCE_S, App, count

Function = Callable[[Task, Sequence[Record]], None]
ROOT = Path(__file__).parent.parent.parent


class Process:
    """One process, tied to this test by its standard input, and its events."""

    def __init__(self, app: App, number: int, *, module: str = "tests.worker.process", **settings: Any) -> None:
        config = {
            "application_id": app.name,
            "bootstrap_servers": app.broker,
            "state_dir": str(app.folder / f"state-{number}"),
            "acceptable_recovery_lag": 100,
            **settings,
        }
        self.events: list[Mapping[str, Any]] = []
        self._news = threading.Condition()
        self._popen = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(config)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def seconds(self) -> float:
        """Return the time from its first event to its last."""
        return float(self.events[-1]["time_ms"] - self.events[0]["time_ms"]) / 1000

    def until_running(self, tasks: int) -> None:
        since = len(self.events)
        self.until(lambda events: any(_running(event) == tasks for event in events[since:]))

    def until(self, wanted: Callable[[Sequence[Mapping[str, Any]]], bool], timeout_s: float = PATIENCE_S) -> None:
        with self._news:
            assert self._news.wait_for(lambda: wanted(self.events), timeout_s), self.events[-3:]

    def named(self, name: str) -> list[Mapping[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def kill(self) -> None:
        self._popen.kill()
        self._end()

    def stand_still(self) -> None:
        """Stop it where it is, until ``go_on``: its session ends meanwhile, and it does not know."""
        self._popen.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        self._popen.send_signal(signal.SIGCONT)

    def close(self) -> int:
        """Ask it to end; return its exit status."""
        self._popen.terminate()
        return self._end()

    def _end(self) -> int:
        status = self._popen.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()
        return status

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()


def _running(event: Mapping[str, Any]) -> int | None:
    if event["event"] != "status":
        return None
    return sum(task_status["state"] == "running" for task_status in event["tasks"].values())


def main(
    text: str,
    function: Function = count,
    on_error: OnError = "fail",
    stores: Sequence[str | Store] = ("totals",),
    **more: Any,
) -> None:
    """Work until a signal, or the end of standard input; ``more`` is of the ``Subtopology``."""
    config = Config.from_mapping(json.loads(text))
    topic = config.application_id
    topology = [Subtopology(function, [topic], stores, [f"{topic}-counts"], on_error=on_error, **more)]
    worker = Worker(config, topology, on_event=_tell)
    signal.signal(signal.SIGTERM, lambda *_: worker.close())
    threading.Thread(target=lambda: (sys.stdin.read(), worker.close()), daemon=True).start()
    worker.run()


def _tell(event: Event) -> None:
    sys.stdout.write(json.dumps(event.as_dict()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
