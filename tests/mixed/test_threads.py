"""A Java instance with three threads and a Python worker, each led by the other; then one requests a shutdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.wire import decode_assignment
from kstreams_assign.wire.consumer_protocol import decode_consumer_assignment
from tests.java.app_process import AppProcess
from tests.mixed.stage import Language, Stage, until

pytestmark = pytest.mark.timeout(400)  # several waits, each with its own limit

PARTITIONS, THREADS = 8, 3
LIMIT_S = 90.0
ALL = {"session.timeout.ms": 10_000}
"""No session may expire on a busy machine, as another would lead then; Java's failed threads are awaited."""
JAVA = {**ALL, "num.stream.threads": THREADS, "application.server": "127.0.0.1:7001"}
OURS = {**ALL, "application.server": "127.0.0.1:7002"}
SETTINGS = {"java": JAVA, "python": OURS}


@pytest.fixture
def stage(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Stage]:
    with closing(Stage(broker, request.node.name.replace("_", "-"), tmp_path, PARTITIONS, 0)) as running_stage:
        yield running_stage


def each_consumers(stage: Stage) -> list[int]:
    """Return the number of active tasks of each consumer of the group."""
    with describes_groups(stage.servers) as describer:
        group = describer.describe(stage.name)
    assert group is not None
    given = [decode_consumer_assignment(member.assignment) for member in group.members if member.assignment]
    return [len(decode_assignment(assignment.user_data).active_tasks) for assignment in given]


def until_each_consumer_has(stage: Stage, tasks: int) -> None:
    """Wait for the assignments: brokers return none while the group rebalances."""
    until(lambda: Counter(each_consumers(stage)) == {tasks: THREADS + 1}, LIMIT_S, f"{tasks} for each consumer", [])


def grown(stage: Stage, first: Language) -> tuple[AppProcess, AppProcess]:
    """Start an instance of each kind, the first of which leads, with inputs arriving; return Java's first."""
    second: Language = "java" if first == "python" else "python"
    leader = stage.start(first, SETTINGS[first])
    leader.until_tasks(active=PARTITIONS)
    stage.send(at_once=400, per_s=100)
    joiner = stage.start(second, SETTINGS[second])
    java, ours = (leader, joiner) if first == "java" else (joiner, leader)
    java.until_tasks(active=PARTITIONS - PARTITIONS // (THREADS + 1))
    ours.until_tasks(active=PARTITIONS // (THREADS + 1))
    assert leader.signs(stage.leader())
    return java, ours


def test_python_leads_three_threads(stage: Stage) -> None:
    java, ours = grown(stage, "python")
    until_each_consumer_has(stage, 2)
    assert ours.named("decision")[-1]["members"] == THREADS + 1
    ours.tell("shut-down")
    assert ours.until_ended() != 0
    assert ours.named("shutdown_requested")
    java.until(lambda _: java.named("state")[-1]["state"] == "ERROR")


def test_three_threads_lead_python(stage: Stage) -> None:
    java, ours = grown(stage, "java")
    until_each_consumer_has(stage, 2)
    assert not ours.named("decision")
    java.tell("shut-down")
    assert ours.until_ended() != 0
    assert ours.named("shutdown_requested")
    assert ours.named("adopted")[-1]["left"], "its tasks were released in order"
