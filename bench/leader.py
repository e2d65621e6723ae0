"""A leader's whole rebalance in a process of its own: read every subscription, decide, write every assignment.

A converged group with several threads a process and one process that joins. ``first call`` counts all of ``decide`` but
no import; ``memory`` is the largest resident memory of that process, members' bytes included. Kafka's leader needs a
broker's metadata around it, so there is no peer here. Members name no endpoint: with one, each of them is sent the
partitions of all others, which a group of this size cannot carry (``__consumer_offsets`` takes 1 MB for the whole
group).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from time import perf_counter, process_time
from uuid import UUID

from bench import java_peer
from bench.processes import Json, run, text_of
from bench.results import Result
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.dialects import DIALECTS, MemberReport
from kstreams_assign.group.leader import DecisionInput, decide, lookups
from kstreams_assign.group.values import JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import RUNNING_OFFSET_SUM, Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.peer.bench_problem import END_OFFSET_SUM, Held, Problem, Size, read
from kstreams_assign.wire import MemberTrailer

CASE, QUICK_CASE = "20000x200x4x1", "400x20x4x1"
SETUPS = (("high_availability", "apache"), ("least_movement", "apache"), ("least_movement", "kip441"))
TOPIC = "in"
TOPOLOGY = TopologyShape((SubtopologyShape((TOPIC,), (Store("counts"),)),))


def measure(quick: bool, clock: str) -> list[Result]:
    """``clock`` is empty for wall time, ``_cpu`` for processor time."""
    case = QUICK_CASE if quick else CASE
    results = []
    for assignor, user_data in SETUPS:
        held, _ = text_of([sys.executable, "-m", "kstreams_assign.peer.bench_call", case, assignor, "held"])
        (row,), rss_mib = run([sys.executable, "-m", "bench.leader", case, assignor, user_data], held)
        work = f"leader {case} {assignor} {user_data}"
        results.append(Result(f"{work} first call", row[f"first_call{clock}_ms"], None, java_peer.NAME, "ms"))
        results.append(Result(f"{work} memory", rss_mib, None, java_peer.NAME, "MiB"))
    return results


def first_call(case: str, assignor: str, user_data: str, held: str) -> Json:
    """Return the wall and CPU milliseconds of a leader in this process, from all members' bytes to their answers."""
    members, question = rebalance(case, assignor, user_data, held)
    began, began_cpu = perf_counter(), process_time()
    decision = decide(read_group(members, DIALECTS[user_data]), question)
    took, took_cpu = perf_counter() - began, process_time() - began_cpu
    if decision.warnings or decision.assignor != assignor or len(decision.assignments) != len(members):
        raise RuntimeError(f"{case}: {decision.assignor} decided for {len(decision.assignments)}: {decision.warnings}")
    return {"first_call_ms": took * 1000, "first_call_cpu_ms": took_cpu * 1000}


def rebalance(case: str, assignor: str, user_data: str, held: str) -> tuple[list[JoinedMember], DecisionInput]:
    """Return the members of a converged group and of one new process, and what the leader knows."""
    size = Size.parse(case)
    members = list(joined([*read(held), Held()], size.threads, user_data))
    counts = {TOPIC: size.tasks}
    ends = dict.fromkeys(lookups(TOPOLOGY, "bench", counts).end_offsets, END_OFFSET_SUM)
    config = Problem(size).config
    return members, DecisionInput("bench", TOPOLOGY, assignor, config, UUID(int=0), counts, ends, now_ms=0)


def joined(held: list[Held], threads: int, user_data: str) -> Iterator[JoinedMember]:
    """Return each process's threads as they join; a thread of each reports its state, the standbys at the end."""
    dialect = DIALECTS[user_data]
    trailer = MemberTrailer(known_assignors())
    for number, process in enumerate(held):
        for thread in range(threads):
            active, standby = process.active[thread::threads], process.standby[thread::threads]
            report = MemberReport(
                dialect.latest_version,
                dialect.latest_version,
                UUID(int=number),
                task_offset_sums=sums(active, RUNNING_OFFSET_SUM) | sums(standby, END_OFFSET_SUM),
                task_lags=sums((*active, *standby), 0) if dialect.tells_lags else None,
                trailer=trailer,
            )
            owned = tuple(TopicPartition(TOPIC, task.partition) for task in active)
            yield JoinedMember(f"{number:05}-{thread}", (TOPIC,), owned, dialect.write_report(report))


def sums(tasks: tuple[TaskId, ...], total: int) -> dict[TaskId, int]:
    return dict.fromkeys(tasks, total)


if __name__ == "__main__":
    print(json.dumps(first_call(*sys.argv[1:4], held=sys.stdin.read())))
