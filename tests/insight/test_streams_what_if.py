"""``what-if`` of a streams group asks first; then real Java members make the change, and the broker does the same."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from tests.insight.run import Cli
from tests.java.streams_app import StreamsApp

pytestmark = pytest.mark.timeout(300)

SECONDS, PARTITIONS, RECORDS = 60, 6, 600
GROUP, TOPIC = "asked-streams", "asked-streams-in"


def test_a_join_and_a_leave_of_java_members_come_as_predicted(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    ClusterAdmin(broker).create_topics({TOPIC: PARTITIONS}, SECONDS)
    with closing(RecordProducer(broker, delivery_timeout_ms=60_000)) as producer:
        for number in range(RECORDS):
            producer.produce(TOPIC, number % PARTITIONS, b"key-%d" % number, b"")
        producer.flush(SECONDS)

    def ask(*words: object) -> dict[str, Any]:
        return run("what-if", GROUP, "-b", broker, "--json", *words).facts

    def owners(processes: int) -> dict[str, str]:
        """Wait until so many processes share all tasks; return the process of each."""
        deadline = time.monotonic() + SECONDS
        while True:
            facts = run("inspect", GROUP, "-b", broker, "--json").facts
            held = {task: process["process_id"] for process in facts["processes"] for task in process["active"]}
            settled = facts["state"] == "Stable" and len(facts["processes"]) == processes
            if settled and len(held) == PARTITIONS and sum(facts["changelog_offsets"].values()) >= RECORDS:
                return held
            assert time.monotonic() < deadline, facts
            threading.Event().wait(0.2)

    with ExitStack() as ends:

        def start(name: str) -> StreamsApp:
            app = StreamsApp(broker, GROUP, tmp_path / name, [TOPIC], settings={"group.protocol": "streams"})
            ends.callback(app.close)
            return app

        for app in (start("a"), start("b")):
            app.until_tasks(active=PARTITIONS // 2)
        before = owners(2)
        asked = ask("--add", 1, "--restore-rate", 100)
        assert (asked["protocol"], asked["processes"], asked["tasks"]) == ("streams", 2, PARTITIONS)
        assert (asked["heartbeat_interval_ms"], asked["num_standby_replicas"]) == (5_000, 0)
        assert asked["cold"] == asked["owner_changes"] == 2
        assert asked["offsets_read"] >= 2 * RECORDS // PARTITIONS
        assert asked["silence_ms_max"] >= 2_000
        beside = (asked["classic"]["owner_changes"], asked["classic"]["cold"], asked["warm_join"])
        assert beside == (2, 0, {"cold": 0, "silence_ms_max": 0})
        third = start("c")
        joined = owners(3)
        moved = [task for task in before if joined[task] != before[task]]
        least, most = asked["owner_changes_range"]
        assert least <= len(moved) <= most
        (new,) = set(joined.values()) - set(before.values())
        assert {joined[task] for task in moved} == {new}

        asked = ask("--remove", new)
        assert ({move["task"] for move in asked["moves"]}, asked["warm_join"]) == (set(moved), None)
        predicted = {move["task"]: move["to"] for move in asked["moves"]}
        assert None not in predicted.values()
        text = run("what-if", GROUP, "-b", broker, "--remove", new).out
        assert "streams protocol" in text
        refused = run("what-if", GROUP, "-b", broker, "--add-java", 1)
        assert refused.status == 2
        assert "--add-java: not for a group of the streams protocol" in refused.err
        third.close()
        left = owners(2)
        assert {task: left[task] for task in moved} == predicted
        assert {task: left[task] for task in before if task not in moved} == {
            task: before[task] for task in before if task not in moved
        }
