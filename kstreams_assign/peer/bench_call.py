"""One process of ``bench-assign``: ``python -m kstreams_assign.peer.bench_call CASE ASSIGNOR held|SECONDS MIN MAX``.

``held`` prints the converged group. Otherwise standard input lists the held tasks (empty: a fresh start), and one JSON
line reports the time of the first call in this new process and of later ones.

The import of the assignors is measured, so nothing else may be imported before it, neither by this module nor by its
package.
"""

from __future__ import annotations

import sys
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstreams_assign.assign import Plan
    from kstreams_assign.peer.bench_problem import Problem
    from kstreams_assign.peer.lines import Json


def main(arguments: list[str]) -> None:
    clocks = perf_counter(), process_time()
    from kstreams_assign.assign import ASSIGNORS

    import_ms, import_cpu_ms = _since(clocks[0], perf_counter()), _since(clocks[1], process_time())
    import json

    from kstreams_assign.peer import bench_problem

    case, name, wanted = arguments[:3]
    size, assignor = bench_problem.Size.parse(case), ASSIGNORS[name]
    if wanted == "held":
        sys.stdout.write(bench_problem.written(bench_problem.converged(size, assignor)))
        return
    problem = bench_problem.Problem(size, bench_problem.read(sys.stdin.read()))

    def call() -> tuple[float, float, Plan]:
        cluster = problem.cluster()
        return _timed(lambda: assignor(cluster, problem.config))

    row = _first(call, problem, import_ms, import_cpu_ms) | _warm(call, float(wanted), *map(int, arguments[3:5]))
    print(json.dumps(row, separators=(",", ":")))


def _since(began: float, ended: float) -> float:
    return round((ended - began) * 1000, 3)


def _timed(work: Callable[[], Plan]) -> tuple[float, float, Plan]:
    """Return wall and processor milliseconds, and the plan."""
    began, began_cpu = perf_counter(), thread_time()
    plan = work()
    ended_cpu, ended = thread_time(), perf_counter()
    return _since(began, ended), _since(began_cpu, ended_cpu), plan


def _first(
    call: Callable[[], tuple[float, float, Plan]], problem: Problem, import_ms: float, import_cpu_ms: float
) -> Json:
    took_ms, took_cpu_ms, plan = call()
    return {
        "clients_in_call": len(problem.held),
        "tasks": len(problem.stateful),
        "first_call_ms": round(import_ms + took_ms, 3),
        "first_call_cpu_ms": round(import_cpu_ms + took_cpu_ms, 3),
        "import_ms": import_ms,
        "probing_rebalance": plan.probing,
        "assignment_sha256": _digest(plan),
    }


def _warm(call: Callable[[], tuple[float, float, Plan]], seconds: float, least: int, most: int) -> Json:
    """Warm up for a quarter of the time (and at least one call), then measure; clusters are built unmeasured."""
    walls: list[float] = []
    cpus: list[float] = []
    warm_ups = 0
    began = perf_counter()
    while True:
        spent = perf_counter() - began
        warming = spent < seconds / 4 or warm_ups == 0
        if not warming and len(walls) >= least and (spent >= seconds or len(walls) >= most):
            break
        wall, cpu, _ = call()
        if warming:
            warm_ups += 1
        else:
            walls.append(wall)
            cpus.append(cpu)
    return {
        "warm_up_calls": warm_ups,
        "warm_calls": len(walls),
        "warm_min_ms": min(walls),
        "warm_median_ms": _median(walls),
        "warm_min_cpu_ms": min(cpus),
        "warm_median_cpu_ms": _median(cpus),
    }


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _digest(plan: Plan) -> str:
    """Return the SHA-256 of the answer's ``clients`` as compact JSON: equal for equal answers of any peer."""
    import hashlib
    import json

    from kstreams_assign.peer.decisions import placements

    return hashlib.sha256(json.dumps(placements(plan), separators=(",", ":")).encode()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
