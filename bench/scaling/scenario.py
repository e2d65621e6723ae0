"""One system from its first two processes to the last event: processes, load, reader, and the window of each event."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from bench.scaling.measures import BACK_AT, Scaling, Steady, Tasks, Window, is_back, scaling, steady
from bench.scaling.systems import ScalingProcess, System
from bench.scaling.traffic import PATIENCE_S, Load, Reader
from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.java.app_process import arguments
from tests.mixed.stage import balanced, until

EVENTS = ("join", "leave", "drain", "kill")
NEEDED = {"join": 2, "leave": 3, "drain": 3, "kill": 2}
"""Number of processes before an event, at least."""
PROCESSES = 2
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How large, and how long. The group has been balanced and answers in time for ``settle_s`` before each event."""

    records_per_partition: int = 300_000
    partitions: int = 6
    per_s: int = 2_000
    steady_s: float = 20
    settle_s: float = 5
    settle_limit_s: float = 60
    limit_s: float = 400
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 500

    @property
    def settings(self) -> Mapping[str, object]:
        """Settings of all processes."""
        return {
            "commit.interval.ms": 100,
            "heartbeat.interval.ms": self.heartbeat_interval_ms,
            "max.warmup.replicas": self.partitions,
            "num.standby.replicas": 0,
            "probing.rebalance.interval.ms": 60_000,
            "session.timeout.ms": self.session_timeout_ms,
        }

    @property
    def broker_settings(self) -> Mapping[str, str]:
        """Settings of the broker: in streams groups it decides on sessions, and its default minimum is 45 s."""
        return {
            "group.streams.min.session.timeout.ms": "1000",
            "group.streams.session.timeout.ms": str(self.session_timeout_ms),
            "group.streams.min.heartbeat.interval.ms": "100",
            "group.streams.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
        }


QUICK = Plan(500, per_s=600, steady_s=3, settle_s=1, settle_limit_s=5, limit_s=120, session_timeout_ms=6_000)


@dataclass(frozen=True, slots=True)
class Counts:
    """Inputs that were sent and those that never had an output; repeated outputs; counts that were too low."""

    inputs: int
    lost: int
    repeated: int
    low: int


@dataclass(slots=True)
class Run:
    """What one system did."""

    steady: Steady
    events: dict[str, Scaling]
    windows: list[Window]
    counts: Counts
    tasks: Tasks


@dataclass(slots=True)
class Scenario:
    """One system on a broker. ``close`` ends all its processes."""

    servers: str
    name: str
    system: System
    folder: Path
    plan: Plan
    log: Log
    apps: list[ScalingProcess] = field(init=False, default_factory=list)
    """Processes that are members, the oldest first."""
    _started: list[ScalingProcess] = field(init=False, default_factory=list)
    _load: Load = field(init=False)
    _reader: Reader = field(init=False)
    _steady: Steady = field(init=False)

    def __post_init__(self) -> None:
        plan, servers, keys = self.plan, self.servers, self.plan.records_per_partition
        ClusterAdmin(servers).create_topics({self._input: plan.partitions, self._output: plan.partitions}, PATIENCE_S)
        self._load = Load(servers, self._input, plan.partitions, keys)
        self._reader = Reader(servers, self._output, plan.partitions, keys, read_committed=self.system.exactly_once)

    @property
    def _input(self) -> str:
        return f"{self.name}-in"

    @property
    def _output(self) -> str:
        return f"{self.name}-out"

    def run(self, events: Sequence[str]) -> Run:
        """Run the events in turn. Raises ``AssertionError`` where the group does not come to balance."""
        self._begin()
        windows = [self._window(event) for event in events]
        self._load.stop()
        self._reader.until_answered(self._load.total, PATIENCE_S)
        self._reader.stop()
        measured = {window.event: scaling(self._reader.tasks, window, self._steady.p99_ms) for window in windows}
        lost = self._load.total - self._reader.answered
        counts = Counts(self._load.total, lost, self._reader.repeated, self._reader.low)
        return Run(self._steady, measured, windows, counts, self._reader.tasks)

    def close(self) -> None:
        """End all processes at once; what they have not committed is not needed any more."""
        self._load.stop()
        self._reader.stop()
        for app in self._started:
            app.kill()

    def _begin(self) -> None:
        """Start the processes, make state, and measure while nothing happens."""
        for _ in range(PROCESSES):
            self._start()
        self._balance("the first processes share the tasks")
        began = time.monotonic()
        self._load.preload()
        self._await(lambda: self._reader.answered >= self._load.total, "the preloaded inputs are answered")
        self.log(f"{self._load.total:,} inputs are answered after {time.monotonic() - began:.0f} s")
        self._load.start(self.plan.per_s)
        self._pause(self.plan.settle_s)
        window = self._pause(self.plan.steady_s)
        self._steady = steady(self._reader.tasks, window)
        self.log(f"steady: 99 % of latencies are at most {self._steady.p99_ms:.0f} ms")

    def _window(self, event: str) -> Window:
        """Let an event happen; return its window."""
        while len(self.apps) < NEEDED[event]:
            self.log(f"one more process joins, for the next event ({event})")
            self._start()
            self._settle("one more process joins")
        begin_ms = _now_ms()
        getattr(self, f"_{event}")()
        self._settle(event)
        window = Window(event, begin_ms, _now_ms())
        self.log(f"{event}: balanced and steady after {(window.end_ms - begin_ms) / 1000:.1f} s")
        return window

    def _join(self) -> None:
        self._start()

    def _leave(self) -> None:
        self.apps.pop(0).start_close()

    def _drain(self) -> None:
        self.apps.pop(0).drain()

    def _kill(self) -> None:
        self.apps.pop(0).kill()

    def _start(self) -> None:
        number = len(self._started)
        own = (self._input, self._output, str(number))
        settings = {**self.plan.settings, **self.system.settings}
        words = arguments(self.servers, self.name, self.folder / str(number), *own, settings=settings)
        app = ScalingProcess(self.system, words)
        self._started.append(app)
        self.apps.append(app)

    def _settle(self, about: str) -> None:
        """Wait until the group is balanced, then until all latencies are back for some seconds, if they come back."""
        self._balance(about)
        limit_ms, settle_ms = BACK_AT * self._steady.p99_ms, self.plan.settle_s * 1000
        earliest_ms = _now_ms()
        until_s = time.monotonic() + self.plan.settle_limit_s
        while True:
            self._pause(0.2)
            since_ms = max(earliest_ms, _now_ms() - settle_ms)
            if _now_ms() - earliest_ms >= settle_ms and is_back(self._reader.tasks, since_ms, _now_ms(), limit_ms):
                return
            if time.monotonic() > until_s:
                self.log(f"{about}: latencies did not stay below {limit_ms:.0f} ms; going on")
                return

    def _balance(self, about: str) -> None:
        self._await(lambda: balanced(self.apps, self.plan.partitions, 0), about)

    def _await(self, condition: Callable[[], bool], about: str) -> None:
        until(condition, self.plan.limit_s, about, self.apps)

    def _pause(self, seconds: float) -> Window:
        """Wait; fail if a process ends meanwhile. Return the time as a window."""
        begin_ms = _now_ms()
        Event().wait(seconds)
        assert all(app.alive for app in self.apps), "a process ended"
        return Window("steady", begin_ms, _now_ms())


def _now_ms() -> float:
    return time.time() * 1000
