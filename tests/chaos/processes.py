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
"""A worker that starts waits so long for the broker's first answer."""
HEARTBEAT_S = 1.0
"""The greatest age of the last answered heartbeat when a process is stopped."""
HOUR_MS = 3_600_000


def topics(application_id: str) -> tuple[str, str, str]:
    """Return the names of the input, output and changelog topics."""
    return f"{application_id}-inputs", f"{application_id}-outputs", f"{application_id}-applied-changelog"


class Outages:
    """The measured times without a broker."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._since: float | None = None

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Record an outage for as long as the block lasts."""
        self._since = began = monotonic()
        try:
            yield
        finally:
            self._since = None
            self._spans.append((began, monotonic()))

    def within(self, start: float, end: float) -> float:
        """Return the seconds without a broker between two times."""
        spans = [*self._spans, *([(self._since, end)] if self._since is not None else [])]
        return sum(max(0.0, min(end, until) - max(start, since)) for since, until in spans)


@dataclass(slots=True)
class Process:
    """A worker process. ``writer`` signs its records; ``closed_with_all``: it lived until the run ended."""

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
        """Return how it ended.

        A signal to leave may arrive before its handler is installed, and then ends it at once.
        """
        without_s = outages.within(self.ended_at - ANSWER_S, self.ended_at)
        said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SAID_LINES:]
        unheard = self.asked is not None and self.popen.returncode == -self.asked
        return Exit(self.writer, self.popen.returncode, self.killed or unheard, " | ".join(said), without_s)


@dataclass(slots=True)
class Group:
    """All processes of the run. ``current``: the newest of each number; ``harmed``: numbers with damaged files."""

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
        """Start the next process of a number, on its state directory.

        Call from the main thread, to which it is tied.
        """
        writer = f"w{number}.{1 + sum(process.number == number for process in self.all)}"
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
            "group_protocol": settings.protocol,
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
        """Send SIGSTOP."""
        process.popen.send_signal(signal.SIGSTOP)
        process.stopped_at = monotonic()

    def go_on(self, process: Process) -> None:
        """Send SIGCONT."""
        if process.stopped_at is not None:
            process.longest_stop_s = max(process.longest_stop_s, monotonic() - process.stopped_at)
            process.stopped_at = None
        process.popen.send_signal(signal.SIGCONT)

    def kill(self, process: Process) -> None:
        """Send SIGKILL and wait for the end."""
        process.killed = process.alive
        process.popen.kill()
        process.popen.wait()

    def leave(self, process: Process, number: signal.Signals) -> None:
        """Send SIGTERM, or SIGUSR1 to drain first."""
        process.leaving, process.asked = True, number
        process.popen.send_signal(number)

    def wake(self) -> None:
        """Continue all stopped processes."""
        for process in self.all:
            if process.alive:
                self.go_on(process)

    def slept(self) -> frozenset[str]:
        """Return the writers that were stopped for so long that their session may have ended."""
        enough_s = self.settings.session_timeout_s - HEARTBEAT_S
        return frozenset(process.writer for process in self.all if process.longest_stop_s >= enough_s)

    def note_ends(self) -> None:
        """Note the time at which processes ended; call it often."""
        for process in self.all:
            if not process.ended_at and not process.alive:
                process.ended_at = monotonic()

    def members(self) -> list[Process]:
        """Return the live processes that were not asked to leave."""
        return [process for process in self.current.values() if process.alive and not process.leaving]

    def end(self) -> None:
        """Kill all live processes."""
        for process in self.all:
            if process.alive:
                self.kill(process)
