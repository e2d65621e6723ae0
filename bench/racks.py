"""Traffic between racks (KIP-925) that each strategy leaves, and the time of a decision, beside Kafka's own classes.

``python -m bench.racks --case 1000x50`` times one case alone. It counts the
partitions of random groups that are read from another rack once the group is at rest, and it times one decision about a
group that starts. Both sides read the request and write the answer as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from random import Random
from time import perf_counter
from typing import Any
from uuid import UUID

from bench import java_peer
from bench.results import Result, show
from tests.peer.compare import Peer

Json = dict[str, Any]

STRATEGIES = ("none", "min_traffic", "balance_subtopology")
RACKS = ("a", "b", "c")
GROUPS = 200
CASES = ("100x10", "200x20")
OURS_ALONE = ("1000x50",)
"""Kafka's classes would take hours: each negative cycle costs them as many passes over all edges as there are nodes."""

QUICK_CASES = ("100x10",)
SUBTOPOLOGIES = 10
END = 100
OURS = [sys.executable, "-m", "kstreams_assign", "peer"]


def conversation(command: list[str]) -> Peer:
    """``assign`` of one side."""
    return Peer(shlex.join(command), "assign")


def decided(peer: Peer, request: Json) -> tuple[Json, float]:
    """The clients of the answer, and the milliseconds it took."""
    began = perf_counter()
    clients: Json = peer.ask(request)["clients"]
    return clients, (perf_counter() - began) * 1000


def group(random: Random, tasks: int, processes: int, standbys: int) -> Json:
    """A group that starts: everybody could run everything. Each partition has replicas in one or two of three racks."""
    names = [f"{number % SUBTOPOLOGIES}_{number // SUBTOPOLOGIES}" for number in range(tasks)]

    def partitions() -> Json:
        return {name: [random.sample(RACKS, random.choice([1, 2]))] for name in names}

    return {
        "config": {"num_standby_replicas": standbys},
        "stateful_tasks": names,
        "stateless_tasks": [],
        "task_end_offset_sums": dict.fromkeys(names, END),
        "clients": [
            {"process_id": str(UUID(int=number + 1)), "rack": random.choice(RACKS), "task_offset_sums": {}}
            for number in range(processes)
        ],
        "partition_racks": {"source": partitions(), "changelog": partitions()},
    }


def asked(problem: Json, assignor: str, strategy: str) -> Json:
    return problem | {
        "assignor": assignor,
        "config": problem["config"] | {"rack_aware_assignment_strategy": strategy},
    }


def from_other_racks(problem: Json, clients: Mapping[str, Json]) -> int:
    """How many partitions are read from another rack: of active tasks their sources, of standbys their changelogs."""
    rack = {client["process_id"]: client["rack"] for client in problem["clients"]}
    racks = problem["partition_racks"]
    kinds = (("active", "source"), ("standby", "changelog"))
    return sum(
        rack[process] not in replicas
        for process, placed in clients.items()
        for role, kind in kinds
        for task in placed[role]
        for replicas in racks[kind][task]
    )


def left_over(java: list[str] | None, count: int) -> list[Result]:
    """What each strategy leaves of the traffic between racks."""
    random = Random(925)  # noqa: S311 - a seed is a run
    groups = [group(random, random.randint(5, 60), random.randint(2, 9), random.choice([0, 1])) for _ in range(count)]
    results = []
    with ExitStack() as ends:
        ours = ends.enter_context(closing(conversation(OURS)))
        theirs = ends.enter_context(closing(conversation(java))) if java else None
        for assignor in ("high_availability", "least_movement"):
            for strategy in STRATEGIES:
                total, peers = 0, 0
                for problem in groups:
                    mine, _ = decided(ours, asked(problem, assignor, strategy))
                    total += from_other_racks(problem, mine)
                    if theirs:
                        kafkas, _ = decided(theirs, asked(problem, "high_availability", strategy))
                        peers += from_other_racks(problem, kafkas)
                        if assignor == "high_availability" and mine != kafkas:
                            raise RuntimeError(f"{strategy}: {java_peer.NAME} decides otherwise: {json.dumps(problem)}")
                work = f"{assignor} {strategy}, {count} groups"
                results.append(Result(work, total, peers if theirs else None, java_peer.NAME, "partitions"))
    return results


def times(java: list[str] | None, case: str) -> list[Result]:
    """One decision about this many tasks and processes, in processes that have decided a small group before."""
    tasks, processes = map(int, case.split("x"))
    random = Random(1)  # noqa: S311 - a seed is a run
    problem, small = group(random, tasks, processes, 1), group(random, 30, 4, 1)
    results = []
    for strategy in STRATEGIES[1:]:
        requests = [asked(problem_size, "high_availability", strategy) for problem_size in (small, problem)]
        mine, ours_ms = _last(OURS, requests)
        theirs_ms = None
        if java:
            kafkas, theirs_ms = _last(java, requests)
            if mine != kafkas:
                raise RuntimeError(f"{case} {strategy}: {java_peer.NAME} decides otherwise")
        results.append(Result(f"assign {case}x1x1 {strategy}", ours_ms, theirs_ms, java_peer.NAME, "ms"))
    return results


def _last(command: list[str], requests: list[Json]) -> tuple[Json, float]:
    """What a new process decides last, and how long that took: it has loaded its code for those before."""
    with closing(conversation(command)) as peer:
        return [decided(peer, request) for request in requests][-1]


def measure(quick: bool) -> list[Result]:
    try:
        java: list[str] | None = java_peer.command()
    except java_peer.NoJavaPeer:
        java = None
    results = left_over(java, 20 if quick else GROUPS)
    results += [row for case in (QUICK_CASES if quick else CASES) for row in times(java, case)]
    return results if quick else results + [row for case in OURS_ALONE for row in times(None, case)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.racks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", help="TASKSxPROCESSES, timed alone")
    options = parser.parse_args()
    rows = times(java_peer.command(), options.case) if options.case else measure(quick=False)
    show("Traffic between racks", rows)
