"""``inspect`` of a real Java Kafka Streams application that scales out: it agrees with Java itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.insight.fetch import take_snapshot
from kstreams_assign.model import TopicPartition
from tests.insight.run import Cli
from tests.java.app_process import PATIENCE_S
from tests.java.streams_app import StreamsApp, streams_app
from tests.mixed.stage import until

TOPICS = {"java-orders": 4, "java-clicks": 2}
EACH = 3_000
SETTINGS = {
    "acceptable.recovery.lag": 0,
    "max.warmup.replicas": 4,
    "application.server": "localhost:7070",
    "session.timeout.ms": 30_000,  # long enough for a busy machine: a lost session adds a rebalance
}
GIVEN = ("--set", "acceptable_recovery_lag=0", "--set", "max_warmup_replicas=4")


def fill(broker: str) -> None:
    ClusterAdmin(broker).create_topics(TOPICS, PATIENCE_S)
    producer = RecordProducer(broker, delivery_timeout_ms=60_000)
    for number in range(EACH):
        for topic in TOPICS:
            producer.produce(topic, None, b"key-%d" % (number % 301), b"x")
    producer.flush(PATIENCE_S)


def all_counted(broker: str) -> bool:
    """Whether the changelogs have every record, so that lags do not change any more."""
    changelogs = [
        TopicPartition(f"java-app-totals-{topic}-changelog", number)
        for topic, partitions in TOPICS.items()
        for number in range(partitions)
    ]
    return sum(ClusterAdmin(broker).end_offsets(changelogs, PATIENCE_S).values()) >= EACH * len(TOPICS)


def process_of(app: StreamsApp) -> str:
    """Java puts the process id into the names of its threads: APPLICATION-UUID-StreamThread-1."""
    (thread,) = next(event["threads"] for event in reversed(app.events) if event.get("threads"))
    return str(thread).removeprefix("java-app-")[:36]


def alone_since(broker: str, generation: int) -> bool:
    """Whether a generation after this one is complete, with one member."""
    seen = take_snapshot(broker, "java-app")
    return seen.state == "Stable" and (seen.generation or 0) > generation and len(seen.members) == 1


@pytest.mark.timeout(400)  # several waits, each with a limit of its own
def test_a_java_group_that_scales_out_is_seen_as_java_sees_it(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    fill(broker)
    tasks = sum(TOPICS.values())
    with streams_app(broker, "java-app", tmp_path / "1", list(TOPICS), settings=SETTINGS) as first:
        first.until_tasks(active=tasks)
        until(lambda: all_counted(broker), PATIENCE_S, "everything is counted", [first])
        with streams_app(broker, "java-app", tmp_path / "2", list(TOPICS), settings=SETTINGS) as second:
            second.until_tasks(active=0, standby=tasks // 2)
            described = tmp_path / "topology.txt"
            described.write_text(first.describe())
            facts = run("inspect", "java-app", "-b", broker, "--json", "--topology", described, *GIVEN).facts
            inferred = run("inspect", "java-app", "-b", broker, "--json", *GIVEN).facts
            seen = {process["process_id"]: process for process in facts["processes"]}
            for app in (first, second):
                process = seen[process_of(app)]
                assert (process["active"], process["standby"]) == (app.active, app.standby)
                assert (process["ours"], process["version"], process["endpoint"]) == (False, 11, "localhost:7070")
                assert process["warmup"] is None
            leader = next(m["member_id"] for m in seen[process_of(first)]["members"])
            assert (facts["leader"], facts["generation"]) == (leader, 2)
            assert (facts["balanced"], facts["probing_due_ms"]) == (False, None)
            assert facts["next_rebalance_ms"] > facts["taken_ms"]
            assert {move["task"] for move in facts["next_moves"]} == set(second.standby)
            assert {move["to"] for move in facts["next_moves"]} == {process_of(second)}
            assert "topology" not in facts["assumed"]
            assert facts["assumed"]["assignor"].startswith("high_availability")
            for key in ("processes", "next_moves", "restore_if_lost"):
                assert inferred[key] == facts[key]
            assert any("warms up on" in why and "java-app-totals-java-orders-changelog" in why for why in facts["why"])
        until(lambda: alone_since(broker, 2), PATIENCE_S, "the other one has left", [first])
        first.until_tasks(active=tasks)
        facts = run("inspect", "java-app", "-b", broker, "--json", *GIVEN).facts
        (alone,) = facts["processes"]
        assert (alone["active"], alone["standby"]) == (first.active, [])
        assert (facts["balanced"], facts["next_moves"], facts["next_rebalance_ms"]) == (True, [], None)
