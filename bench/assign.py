"""Assignors: ours and Kafka's ``HighAvailabilityTaskAssignor`` in turn on the same problems.

``first call`` is the first decision of a new process. Ours counts the import of the assignors too; Kafka's harness has
loaded some of its classes while it made the problem. ``warm`` is the median of later calls. Making the clients is not
on the clock. Each is run several times in turn with the other, in processes of its own, and the median of the runs
counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import monotonic

from bench import java_peer
from bench.processes import Json, run, text_of
from bench.results import Result
from kstreams_assign.assign import ASSIGNORS
from kstreams_assign.peer.bench_problem import CASES, STATES, Size

QUICK_CASES = ("600x2x1x1", "100x50x1x1", "400x20x4x1")
LIKE_KAFKA = "high_availability"
MEASURED = (LIKE_KAFKA, "least_movement")
LARGE_TASKS = 20_000
RUNS_MAX = 5
BUDGET_S = 20.0
CALLS = ("3", "200")

Rows = dict[str, list[Json]]


@dataclass(frozen=True, slots=True)
class Settings:
    """``java`` is Kafka's command, if it runs here; ``clock`` is empty for wall time, ``_cpu`` for processor time."""

    java: list[str] | None
    quick: bool
    clock: str

    @property
    def cases(self) -> Sequence[str]:
        return QUICK_CASES if self.quick else CASES

    @property
    def seconds(self) -> str:
        return "0.1" if self.quick else "2"


def measure(settings: Settings, case: str) -> list[Result]:
    """The results of one case in both states."""
    results: list[Result] = []
    for state in STATES:
        rows = _rows(settings, case, state)
        theirs = rows.pop(java_peer.NAME)
        _same_answers(rows[LIKE_KAFKA] + theirs, case, state)
        for name, mine in rows.items():
            work = f"assign {case} {state}" if name == LIKE_KAFKA else f"assign {name} {case} {state}"
            for kind, key, unit in _kinds(case, settings.clock):
                ours, peer = _median(mine, key), _median(theirs, key) if theirs else None
                results.append(Result(work + kind, ours, peer, java_peer.NAME, unit))
    return results


def _rows(settings: Settings, case: str, state: str) -> Rows:
    """Return the output of each run of each assignor and of Kafka's class, run in turn."""
    ours = [name for name in MEASURED if name in ASSIGNORS]
    held = {name: _held(case, name) if state == "join" else "" for name in ours}
    rows: Rows = {name: [] for name in (*ours, java_peer.NAME)}
    for name in ours:
        run(
            [sys.executable, "-m", "kstreams_assign.peer.bench_call", "1x1x1x0", name, "0", "1", "1"]
        )  # compiles modules
    began = monotonic()
    while _runs_another(len(rows[LIKE_KAFKA]), monotonic() - began, settings.quick):
        for name in ours:
            call = [sys.executable, "-m", "kstreams_assign.peer.bench_call", case, name, settings.seconds, *CALLS]
            rows[name].append(_row(call, held[name]))
        if settings.java:
            call = [*settings.java, "bench-assign", case, settings.seconds, CALLS[0]]
            rows[java_peer.NAME].append(_row(call, held[LIKE_KAFKA]))
    return rows


def _runs_another(runs: int, spent_s: float, quick: bool) -> bool:
    return not runs or (not quick and runs < RUNS_MAX and spent_s < BUDGET_S)


def _kinds(case: str, clock: str) -> list[tuple[str, str, str]]:
    """Return what is reported of each case: its name, its key in a row, its unit."""
    times = [("", f"warm_median{clock}_ms", "ms"), (" first call", f"first_call{clock}_ms", "ms")]
    # the memory of small cases hides behind that of an interpreter
    return [*times, (" memory", "rss_mib", "MiB")] if Size.parse(case).tasks >= LARGE_TASKS else times


def _held(case: str, name: str) -> str:
    """The converged group that one more client joins."""
    return text_of([sys.executable, "-m", "kstreams_assign.peer.bench_call", case, name, "held"])[0]


def _row(call: list[str], held: str) -> Json:
    (row,), rss_mib = run(call, held)
    return row | {"rss_mib": rss_mib}


def _median(rows: list[Json], key: str) -> float:
    return float(median(row[key] for row in rows))


def _same_answers(rows: list[Json], case: str, state: str) -> None:
    """Times are compared of equal decisions only."""
    if len({row["assignment_sha256"] for row in rows}) > 1:
        raise RuntimeError(f"{case} {state}: high_availability and Kafka's class decide differently")
