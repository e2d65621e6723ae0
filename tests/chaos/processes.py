"""The worker processes of a run: started, stopped, killed, and how each of them ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from kstreams_assign.local import tie
from tests.chaos.facts import Exit
from tests.chaos.schedule import Settings

SAID_LINES = 12
ANSWER_S = 30.0
"""So long a worker that starts waits for the broker's first answer."""
HEARTBEAT_S = 1.0
"""So old may the last answered heartbeat be when a process is stopped."""
HOUR_MS = 3_600_000


def topics(application_id: str) -> tuple[str, str, str]:
    """Inputs, outputs, and the changelog."""
    return f"{application_id}-inputs", f"{application_id}-outputs", f"{application_id}-applied-changelog"


class Outages:
    """When the broker was not there, as measured."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._since: float | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """The broker is gone as long as the block lasts."""
        self._since = began = monotonic()
        try:
            yield
        finally:
            self._since = None
            self._spans.append((began, monotonic()))

    def within(self, start: float, end: float) -> float:
        """Seconds without a broker between two times."""
        spans = [*self._spans, *([(self._since, end)] if self._since is not None else [])]
        return sum(max(0.0, min(end, until) - max(start, since)) for since, until in spans)


@dataclass(slots=True)
class Process:
    """One worker process. ``writer`` signs what it writes; ``closed_with_all``: it was there until the run ended."""

    writer: str
    number: int
    popen: subprocess.Popen[bytes]
    log: Path
    events: Path
    killed: bool = False
    leaving: bool = False
    asked: signal.Signals | None = None
    stopped_at: float | None = None
    longest_stop_s: float = 0.0
    ended_at: float = 0.0
    closed_with_all: bool = False

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def exit(self, outages: Outages) -> Exit:
        """Once it has ended. A signal that asks it to leave may come before it listens: then that ends it, as it should."""
        without_s = outages.within(self.ended_at - ANSWER_S, self.ended_at)
        said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SAID_LINES:]
        unheard = self.asked is not None and self.popen.returncode == -self.asked
        return Exit(self.writer, self.popen.returncode, self.killed or unheard, " | ".join(said), without_s)


@dataclass(slots=True)
class Group:
    """All processes that there ever were. ``current``: the newest of each number; ``harmed``: whose files were damaged."""

    settings: Settings
    application_id: str
    broker: str
    folder: Path
    all: list[Process] = field(default_factory=list)
    current: dict[int, Process] = field(default_factory=dict)
    harmed: set[int] = field(default_factory=set)

    def state_dir(self, number: int) -> Path:
        return self.folder / f"state-{number}"

    def start(self, number: int) -> Process:
        """The next process of a number, on the state directory of the one before. From the main thread: it is tied to it."""
        writer = f"w{number}.{1 + sum(one.number == number for one in self.all)}"
        inputs, outputs, _ = topics(self.application_id)
        events = self.folder / f"{writer}.events"
        given = {
            "signature": writer,
            "events": str(events),
            "inputs": inputs,
            "outputs": outputs,
            "jump_ms": -HOUR_MS if number % 2 else HOUR_MS,
            "config": self._config(number),
        }
        log = self.folder / f"{writer}.log"
        command = [sys.executable, "-m", "tests.chaos.worker", json.dumps(given)]
        tied = [sys.executable, "-I", "-S", str(Path(tie.__file__)), str(os.getpid()), *command]
        with log.open("ab") as output:
            popen = subprocess.Popen(
                tied, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        process = Process(writer, number, popen, log, events)
        self.all.append(process)
        self.current[number] = process
        return process

    def _config(self, number: int) -> dict[str, object]:
        settings = self.settings
        return {
            "application_id": self.application_id,
            "bootstrap_servers": self.broker,
            "state_dir": str(self.state_dir(number)),
            "processing_guarantee": settings.guarantee,
            "assignor": settings.assignor,
            "num_standby_replicas": settings.standbys,
            "max_warmup_replicas": settings.warmups_max,
            "acceptable_recovery_lag": 200,
            "early_probing_floor_ms": 2_000,
            "probing_rebalance_interval_ms": 60_000,
            "state_cleanup_delay_ms": 5_000,
            "session_timeout_ms": int(settings.session_timeout_s * 1000),
        }

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        process.popen.send_signal(signal.SIGSTOP)
        process.stopped_at = monotonic()

    def go_on(self, process: Process) -> None:
        """SIGCONT."""
        if process.stopped_at is not None:
            process.longest_stop_s = max(process.longest_stop_s, monotonic() - process.stopped_at)
            process.stopped_at = None
        process.popen.send_signal(signal.SIGCONT)

    def kill(self, process: Process) -> None:
        """SIGKILL. Returns when it is gone."""
        process.killed = process.alive
        process.popen.kill()
        process.popen.wait()

    def leave(self, process: Process, number: signal.Signals) -> None:
        """SIGTERM, or SIGUSR1 to drain first."""
        process.leaving, process.asked = True, number
        process.popen.send_signal(number)

    def wake(self) -> None:
        """Whoever is stopped goes on."""
        for process in self.all:
            if process.alive:
                self.go_on(process)

    def slept(self) -> frozenset[str]:
        """Who was stopped for so long, as measured, that its session may have ended meanwhile."""
        enough_s = self.settings.session_timeout_s - HEARTBEAT_S
        return frozenset(one.writer for one in self.all if one.longest_stop_s >= enough_s)

    def note_ends(self) -> None:
        """Look who has ended, often enough that the time is right."""
        for process in self.all:
            if not process.ended_at and not process.alive:
                process.ended_at = monotonic()

    def members(self) -> list[Process]:
        """Who is there and means to stay."""
        return [one for one in self.current.values() if one.alive and not one.leaving]

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.all:
            if process.alive:
                self.kill(process)
