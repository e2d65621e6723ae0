"""Following a streams group on a real broker: its tables are what the members logged and what the broker describes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.events import AssignedEvent
from kstreams_assign.history.follow import Settings, following
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.sampling import Sampler
from kstreams_assign.history.source import TOPIC, Broker
from kstreams_assign.wire import DescribedStreamsGroup
from tests.history.play import table_rows
from tests.java.streams_app import streams_app
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, until
from tests.worker.streams_settings import set_group

pytestmark = pytest.mark.timeout(500)  # several waits, each with a limit of its own, and Spark may have to start

SESSION_MS = 30_000
"""A long timeout keeps a busy machine from adding a rebalance."""

WORDS = [b"word-%d" % (n % 97) for n in range(1_000)]
Row = dict[str, Any]


@pytest.fixture
def app(broker: str, tmp_path: Path) -> Iterator[App]:
    app = App(broker, "history-streams", tmp_path)
    set_group(broker, app.name, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, num_standby_replicas=1)
    yield app
    app.stop()


def described(broker: str, group: str) -> DescribedStreamsGroup:
    """The group once it is stable, as the broker describes it."""
    seen: list[DescribedStreamsGroup] = []

    def stable() -> bool:
        with describes_groups(broker, timeout_s=PATIENCE_S) as groups:
            found = groups.describe_streams(group)
        if found is None or found.group_state != "Stable":
            return False
        seen.append(found)
        return True

    until(stable)
    return seen[-1]


def held_by(group: DescribedStreamsGroup) -> dict[tuple[str, str], set[str]]:
    """(Process, role) -> tasks of a described group."""
    held: dict[tuple[str, str], set[str]] = defaultdict(set)
    for member in group.members:
        for role in ("active", "standby"):
            tasks = getattr(member.assignment, f"{role}_tasks")
            held[member.process_id, role] |= {f"{row.subtopology_id}_{n}" for row in tasks for n in row.partitions}
    return {where: tasks for where, tasks in held.items() if tasks}


def placed_in(rows: list[Row], generation: int) -> dict[tuple[str, str], set[str]]:
    """(Process, role) -> tasks in the table ``task_placements``."""
    placed: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["generation"] == generation:
            placed[row["process_id"], row["role"]].add(row["task"])
    return dict(placed)


def scale_out_and_in(app: App) -> tuple[list[Running], list[DescribedStreamsGroup]]:
    """One worker, a second one, the first alone again, none; with the broker's description of each."""
    descriptions = []
    settings = {"group_protocol": "streams", "session_timeout_ms": SESSION_MS}
    app.send(WORDS)
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    app.until_committed()
    descriptions.append(described(app.broker, app.name))
    second = app.start(2, **settings)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_committed()
    descriptions.append(described(app.broker, app.name))
    second.stop()
    first.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_committed()
    descriptions.append(described(app.broker, app.name))
    first.stop()
    return [first, second], descriptions


def test_the_tables_agree_with_the_members_and_the_broker(
    broker: str, spark: SparkSession, app: App, tmp_path: Path
) -> None:
    layout, admin = Layout(tmp_path / "out"), ClusterAdmin(broker)
    source = Broker(broker, partitions=admin.topics(60).get(TOPIC, 5))
    sampler = Sampler(admin, timeout_s=60)
    with following(spark, source, layout, Settings(every_s=0.5, tasks=2), sampler=sampler) as query:
        workers, descriptions = scale_out_and_in(app)
        query.processAllAvailable()
    tables = {
        table: [row for row in table_rows(layout.root / table) if row["group"] == app.name]
        for table in ("rebalances", "members", "task_placements", "movements", "end_offsets")
    }
    rebalances = sorted(tables["rebalances"], key=lambda row: row["generation"])
    assert {row["protocol"] for row in rebalances} == {"streams"}
    assert (rebalances[0]["cause"], rebalances[-1]["cause"]) == ("first", "empty")
    assert {"join", "leave"} <= {row["cause"] for row in rebalances}
    assert not [row for row in table_rows(layout.root / "quarantine") if app.name.encode() in (row["key"] or b"")]

    stable = {row["generation"] for row in rebalances if row["state"] == "stable"}
    assert {group.group_epoch for group in descriptions} <= stable
    for group in descriptions:
        assert placed_in(tables["task_placements"], group.group_epoch) == held_by(group)
        members = [row for row in tables["members"] if row["generation"] == group.group_epoch]
        assert {(row["member_id"], row["process_id"], row["client_id"], row["client_host"]) for row in members} == {
            (member.member_id, member.process_id, member.client_id, member.client_host) for member in group.members
        }
    for worker in workers:
        assert_logged(worker, tables["task_placements"], stable)
    assert_moved(tables["movements"], rebalances)
    assert {(row["task"], row["topic"], row["partition"]) for row in tables["end_offsets"]} == {
        (f"0_{partition}", f"{app.name}-totals-changelog", partition) for partition in range(PARTITIONS)
    }


def assert_logged(worker: Running, placements: list[Row], stable: set[int]) -> None:
    """What a member has at the end of a rebalance is an assignment that it logged in that epoch.

    It may log another one later: a member that is to give tasks up is asked for them before it gets the next epoch.
    """
    logged: dict[int | None, list[tuple[set[str], ...]]] = defaultdict(list)
    for event in worker.reported(AssignedEvent):
        logged[event.epoch].append((set(event.active), set(event.standby)))
    process = worker.reported(AssignedEvent)[0].process_id
    assert logged.keys() & stable
    for epoch in logged.keys() & stable:
        placed = placed_in(placements, epoch or 0)
        assert tuple(placed.get((process, role), set()) for role in ("active", "standby")) in logged[epoch]


def assert_moved(movements: list[Row], rebalances: list[Row]) -> None:
    """Half of the tasks moved while their owner stayed, and the same back when that owner left."""
    began = {row["generation"]: row["began_ms"] for row in rebalances}
    planned = [row for row in movements if row["planned"]]
    adopted = [row for row in movements if not row["planned"]]
    assert len(planned) == len(adopted) == PARTITIONS // 2
    assert {row["task"] for row in planned} == {row["task"] for row in adopted}
    assert sum(row["owner_changes"] or 0 for row in rebalances) == len(planned)
    assert sum(row["adopted"] or 0 for row in rebalances) == len(adopted)
    for row in movements:
        assert row["released_ms"] <= row["taken_ms"] <= row["time_ms"]
        assert began[row["generation"]] <= row["taken_ms"]
        assert row["gap_ms"] is not None
        assert row["gap_ms"] >= row["taken_ms"] - row["released_ms"]
    assert all(row["held_ms"] for row in adopted), "the first worker had their standbys"


@pytest.mark.usefixtures("java_peer")
def test_the_tables_agree_with_what_instances_of_java_run(broker: str, spark: SparkSession, tmp_path: Path) -> None:
    layout, admin, group = Layout(tmp_path / "out"), ClusterAdmin(broker), "history-streams-java"
    admin.create_topics({f"{group}-in": 4}, 60)
    set_group(broker, group, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, num_standby_replicas=1)
    settings = {"group.protocol": "streams"}
    source = Broker(broker, partitions=admin.topics(60).get(TOPIC, 5))
    with (
        following(spark, source, layout, Settings(every_s=0.5, tasks=2), sampler=Sampler(admin, timeout_s=60)) as query,
        streams_app(broker, group, tmp_path / "1", [f"{group}-in"], 0, settings) as first,
    ):
        first.until_tasks(active=4)
        with streams_app(broker, group, tmp_path / "2", [f"{group}-in"], 0, settings) as second:
            for instance in (first, second):
                instance.until_tasks(active=2, standby=2)
            shared = described(broker, group)
        first.until_tasks(active=4)
        alone = described(broker, group)
        query.processAllAvailable()
    placements = [row for row in table_rows(layout.root / "task_placements") if row["group"] == group]
    for seen in (shared, alone):
        assert placed_in(placements, seen.group_epoch) == held_by(seen)
    rebalances = [row for row in table_rows(layout.root / "rebalances") if row["group"] == group]
    assert {"first", "join", "leave"} <= {row["cause"] for row in rebalances}
