"""``inspect`` of a streams group (KIP-1071) with real Java members: what it shows is what Java and the broker have."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.insight.run import Cli
from tests.java.streams_app import streams_app

pytestmark = pytest.mark.timeout(300)

SECONDS, PARTITIONS = 60, 4
SETTINGS = {"group.protocol": "streams", "application.server": "localhost:7071"}


def test_a_group_of_java_members_is_shown_as_the_broker_has_it(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    group, topic = "seen-streams", "seen-streams-in"
    ClusterAdmin(broker).create_topics({topic: PARTITIONS}, SECONDS)
    with streams_app(broker, group, tmp_path / "a", [topic], settings=SETTINGS) as first:
        first.until_tasks(active=PARTITIONS)
        alone = run("inspect", group, "-b", broker, "--json").facts
        assert (alone["protocol"], alone["leader"], alone["generation"]) == ("streams", None, None)
        assert alone["group_epoch"] == alone["assignment_epoch"]
        assert alone["missing_topics"] == {"sources": [], "internal": []}
        (process,) = alone["processes"]
        assert process["endpoint"] == "localhost:7071"
        assert process["active"] == [f"0_{number}" for number in range(PARTITIONS)]
        assert set(process["lags"].values()) == {None}
        assert alone["changelog_offsets"].keys() == set(process["active"])
        (subtopology,) = alone["topology"]
        assert subtopology["sources"] == [topic]
        with streams_app(broker, group, tmp_path / "b", [topic], settings=SETTINGS) as second:
            second.until_tasks(active=PARTITIONS // 2)
            deadline = time.monotonic() + SECONDS
            both = run("inspect", group, "-b", broker, "--json").facts
            while both["state"] != "Stable" and time.monotonic() < deadline:
                threading.Event().wait(0.2)
                both = run("inspect", group, "-b", broker, "--json").facts
            assert both["state"] == "Stable"
            assert both["group_epoch"] > alone["group_epoch"]
            held = [task for process in both["processes"] for task in process["active"]]
            assert sorted(held) == process["active"]
            assert [len(process["active"]) for process in both["processes"]] == [2, 2]
            for member in (member for process in both["processes"] for member in process["members"]):
                assert member["active"] == member["target"]["active"]
                assert member["to_revoke"] == member["awaited"] == {"active": [], "standby": [], "warmup": []}
            text = run("inspect", group, "-b", broker).out
            assert "streams protocol" in text
            assert topic in text
    gone = run("inspect", group, "-b", broker, "--json").facts
    assert (gone["state"], gone["processes"]) == ("Empty", [])


def test_a_saved_streams_group_is_shown_and_played_without_its_broker(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    group, topic, file = "saved-streams", "saved-streams-in", tmp_path / "file.json"
    ClusterAdmin(broker).create_topics({topic: 2}, SECONDS)
    with streams_app(broker, group, tmp_path / "a", [topic], settings=SETTINGS) as app:
        app.until_tasks(active=2)
        shown = run("inspect", group, "-b", broker, "--json", "--save", file).facts
        asked = run("what-if", group, "-b", broker, "--add", 1, "--json").facts
    assert shown["settings"]["streams.heartbeat.interval.ms"] == "5000"
    assert run("inspect", file, "--json").facts == shown
    played = run("what-if", file, "--add", 1, "--json").facts
    assert played["owner_changes"] == asked["owner_changes"] == 1
    assert played["classic"] == asked["classic"]
