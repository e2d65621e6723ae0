"""``inspect`` of a real Java Kafka Streams application that scales out: it agrees with what Java itself says."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from tests.insight.run import Cli
from tests.java.streams_app import StreamsApp, streams_app

TOPICS = {"java-orders": 4, "java-clicks": 2}
SETTINGS = {"acceptable.recovery.lag": 0, "max.warmup.replicas": 4, "application.server": "localhost:7070"}
TOLD = ("--set", "acceptable_recovery_lag=0", "--set", "max_warmup_replicas=4")


def fill(broker: str) -> None:
    ClusterAdmin(broker).create_topics(TOPICS, 20)
    producer = RecordProducer(broker, delivery_timeout_ms=10_000)
    for number in range(3_000):
        for topic in TOPICS:
            producer.produce(topic, None, b"key-%d" % (number % 301), b"x")
    producer.flush(20)


def process_of(app: StreamsApp) -> str:
    """Java puts the process id into the names of its threads: APPLICATION-UUID-StreamThread-1."""
    (thread,) = next(event["threads"] for event in reversed(app.events) if event.get("threads"))
    return str(thread).removeprefix("java-app-")[:36]


def test_a_java_group_that_scales_out_is_seen_as_java_sees_it(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    fill(broker)
    tasks = sum(TOPICS.values())
    with streams_app(broker, "java-app", tmp_path / "1", list(TOPICS), settings=SETTINGS) as first:
        first.until_tasks(active=tasks)
        with streams_app(broker, "java-app", tmp_path / "2", list(TOPICS), settings=SETTINGS) as second:
            second.until_tasks(active=0, standby=tasks // 2)
            described = tmp_path / "topology.txt"
            described.write_text(first.describe())
            facts = run("inspect", "java-app", "-b", broker, "--json", "--topology", described, *TOLD).facts
            inferred = run("inspect", "java-app", "-b", broker, "--json", *TOLD).facts
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
        first.until_tasks(active=tasks)
        facts = run("inspect", "java-app", "-b", broker, "--json", *TOLD).facts
        (alone,) = facts["processes"]
        assert (alone["active"], alone["standby"]) == (first.active, [])
        assert (facts["balanced"], facts["next_moves"], facts["next_rebalance_ms"]) == (True, [], None)
