"""Replace three Java instances by three of ours, one at a time, under load; and, for comparison, by three of Java.

    python -m bench.migration              # 4 runs of some 5 minutes: to Python and to Java, leaving at close or not
    python -m bench.migration --quick      # little state, so that no step waits for a probing interval
    python -m bench.migration --leaving    # only with Java instances that leave the group when they are closed

A step: the new instance joins, warms up and gets its share; the old one is closed, and its tasks go to their standbys.
The silence of a task is the longest time between two records of its changelog partition in a step, by the broker's
clock. Java leaves the group at close only if ``CloseOptions`` say so; by default the group waits for its session.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

from bench.java_peer import NoJavaPeer, compiler
from bench.results import RESULTS, Result, show, write
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker
from tests.java.app_process import AppProcess
from tests.mixed.stage import Counts, Language, Stage, balanced, until

JAVA = "replaced by Java 4.3.1"
INSTANCES = 3
HEARD = 2
"""So many records have a time between them."""
Phase = Literal["joins", "leaves"]
PHASES: tuple[Phase, ...] = ("joins", "leaves")


@dataclass(frozen=True, slots=True)
class Plan:
    """How large.

    ``acceptable_recovery_lag`` below the state there is: newcomers warm up, and wait for the probing interval.
    """

    partitions: int = 6
    standbys: int = 1
    at_once: int = 60_000
    per_s: int = 1_000
    acceptable_recovery_lag: int = 2_000
    limit_s: float = 240

    @property
    def settings(self) -> Mapping[str, object]:
        return {
            "acceptable.recovery.lag": self.acceptable_recovery_lag,
            "max.warmup.replicas": self.partitions,
            "probing.rebalance.interval.ms": 60_000,
            "session.timeout.ms": 10_000,
        }


QUICK = Plan(at_once=600, per_s=200, acceptable_recovery_lag=1_000_000, limit_s=180)


@dataclass(frozen=True, slots=True)
class Window:
    """One half of a step; it lasts until the next one begins. ``moved``: tasks with another owner at its end."""

    phase: Phase
    begin_ms: float
    moved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Run:
    """Three replaced: what was counted, and the silence of each task in each half step, in milliseconds."""

    counts: Counts
    moved_ms: Mapping[Phase, Sequence[float]]
    stayed_ms: Mapping[Phase, Sequence[float]]
    seconds: float


def migrate(stage: Stage, to: Language, plan: Plan, *, leaves: bool = True) -> Run:
    """Replace three Java instances under load. Raises ``AssertionError`` where the group does not come to balance."""
    began = time.monotonic()
    apps = [stage.start("java", plan.settings) for _ in range(INSTANCES)]
    _balance(apps, plan, "three Java instances share the tasks")
    stage.send(at_once=plan.at_once, per_s=plan.per_s)
    enough = plan.at_once // plan.partitions * 3 // 4
    until(lambda: stage.applied() > enough, plan.limit_s, "there is state", apps)
    windows = []
    for old in tuple(apps):
        apps.append(stage.start(to, plan.settings))
        windows.append(_window(stage, "joins", apps, apps, plan))
        everybody = tuple(apps)
        apps.remove(old)
        old.tell("close" if leaves else "stay")
        windows.append(_window(stage, "leaves", everybody, apps, plan))
        old.close()
    counts = stage.counted()
    return _run(counts, stage.times(), windows, round(time.monotonic() - began, 1))


def _balance(apps: Sequence[AppProcess], plan: Plan, about: str) -> None:
    until(lambda: balanced(apps, plan.partitions, plan.standbys), plan.limit_s, about, apps)


def _window(
    stage: Stage, phase: Phase, before: Sequence[AppProcess], after: Sequence[AppProcess], plan: Plan
) -> Window:
    """Measure until the remaining instances are balanced and each task writes again, so that no silence is missed."""
    owners, begin = _owners(before), time.time()
    _balance(after, plan, f"balance, once one {phase}")
    counts_before = stage.applied_to_each()
    until(
        lambda: all(now >= then + HEARD for now, then in zip(stage.applied_to_each(), counts_before, strict=True)),
        plan.limit_s,
        f"every task writes again, once one {phase}",
        after,
    )
    moved = {task for task, owner in _owners(after).items() if owners.get(task) is not owner}
    return Window(phase, begin * 1000, frozenset(moved))


def _owners(apps: Sequence[AppProcess]) -> dict[str, AppProcess]:
    return {task: app for app in apps for task in app.active}


def _run(counts: Counts, times: Mapping[int, Sequence[int]], windows: Sequence[Window], seconds: float) -> Run:
    moved: dict[Phase, list[float]] = {phase: [] for phase in PHASES}
    stayed: dict[Phase, list[float]] = {phase: [] for phase in PHASES}
    ends = [*(window.begin_ms for window in windows[1:]), float("inf")]
    for window, end_ms in zip(windows, ends, strict=True):
        for partition, at in times.items():
            of_task = moved if f"0_{partition}" in window.moved else stayed
            of_task[window.phase].append(silence(at, window.begin_ms, end_ms))
    return Run(counts, moved, stayed, seconds)


def silence(times_ms: Sequence[float], begin_ms: float, end_ms: float) -> float:
    """The longest time between two neighbours whose middle falls between begin and end; 0 where none does."""
    gaps = (after - before for before, after in pairwise(times_ms) if begin_ms <= (before + after) / 2 < end_ms)
    return max(gaps, default=0)


# --- all runs ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """Runs by how Java closes, to Python and to Java."""

    runs: dict[tuple[bool, Language], Run] = field(default_factory=dict)

    def results(self) -> Iterator[Result]:
        for leaves in dict.fromkeys(leaves for leaves, _ in self.runs):
            ours, peer = self.runs[leaves, "python"], self.runs[leaves, "java"]
            how = "Java leaves" if leaves else "Java's default"
            for phase in PHASES:
                for name, figure in (("median", median), ("max", max)):
                    work = f"migration, {how}: moved when one {phase}, {name}"
                    yield Result(work, figure(ours.moved_ms[phase]), figure(peer.moved_ms[phase]), JAVA, "ms")
                work = f"migration, {how}: stayed when one {phase}, max"
                yield Result(work, max(ours.stayed_ms[phase]), max(peer.stayed_ms[phase]), JAVA, "ms")


def compare(plan: Plan, ways: Sequence[bool] = (True, False)) -> list[Result]:
    """To Python and to Java, in turn on one broker. Ends the process where an input was lost."""
    comparison = Comparison()
    try:
        compiler()
    except (NoJavaPeer, LocalBrokerError) as missing:
        print(f"migration is left out: {missing}", file=sys.stderr)
        return []
    languages: tuple[Language, ...] = ("python", "java")
    with LocalBroker() as broker, TemporaryDirectory() as folder:
        for leaves in ways:
            for to in languages:
                name = f"to-{to}-{'leaves' if leaves else 'stays'}"
                with closing(
                    Stage(
                        broker.bootstrap_servers, name, Path(folder, name), plan.partitions, plan.standbys, timed=True
                    )
                ) as stage:
                    run = comparison.runs[leaves, to] = migrate(stage, to, plan, leaves=leaves)
                print(f"{name}: {json.dumps(asdict(run))}", file=sys.stderr)
                if run.counts.lost:
                    sys.exit(f"{name}: {run.counts.lost} inputs lost")
    return list(comparison.results())


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.migration", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="little state; no waiting for probing intervals")
    parser.add_argument("--leaving", action="store_true", help="only with Java instances that leave the group at close")
    options = parser.parse_args(arguments)
    results = compare(QUICK if options.quick else Plan(), (True,) if options.leaving else (True, False))
    show("Three Java instances replaced, one at a time", results)
    write(results)
    print(f"{len(results)} results in {RESULTS.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main(sys.argv[1:])
