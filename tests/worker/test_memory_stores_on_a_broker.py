"""Stores in memory beside stores on disk, on a broker: killed processes, hand-overs, standbys, changelog settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from kstreams_assign import ConfigError, Store
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.rocksdb import read_offsets
from kstreams_assign.errors import KeyNotLocal
from kstreams_assign.events import AssignedEvent, WarningsEvent
from kstreams_assign.topology.changelog_settings import TOPIC_SETTINGS
from tests.worker.app import PARTITIONS, PATIENCE_S, App, count, until
from tests.worker.process import Process
from tests.worker.two_kinds import CHANGELOG_CONFIG, STORES, count_twice

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2"}  # so that a kill repeats nothing
Start = Callable[..., Process]


@pytest.fixture
def start(app: App) -> Iterator[Start]:
    started: list[Process] = []

    def start_process(number: int, **settings: Any) -> Process:
        started.append(Process(app, number, module="tests.worker.two_kinds", **EXACTLY_ONCE, **settings))
        return started[-1]

    yield start_process
    for process in started:
        process.kill()


def test_it_is_restored_after_a_kill_and_after_a_hand_over_to_another_process(app: App, start: Start) -> None:
    app.send(WORDS)
    first = start(1)
    first.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    app.until_committed()
    first.kill()
    folders = sorted((app.folder / "state-1" / app.name).glob("0_*"))
    assert [{at.topic for at in read_offsets(folder)} for folder in folders] == [{f"{app.name}-kept-changelog"}] * 4
    restarted = start(1)
    restarted.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    other = start(2)
    other.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    assert restarted.close() == 0
    other.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    returned = start(1)  # its folders are still there, without the stores in memory
    returned.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    assert (other.close(), returned.close()) == (0, 0)


def test_a_damaged_database_beside_it_costs_a_restore_of_both_and_no_count(app: App, start: Start) -> None:
    app.send(WORDS)
    first = start(1)
    first.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    assert first.close() == 0
    (app.folder / "state-1" / app.name / "0_2" / "CURRENT").write_bytes(b"nothing of the kind")
    again = start(1)
    again.until_running(PARTITIONS)
    assert [event["task"] for event in again.named("store_discarded")] == ["0_2"]
    app.send(WORDS)
    app.until_counted(read_committed=True)
    assert again.close() == 0


def test_a_standby_of_it_is_warm(app: App) -> None:
    """At least once, with all stores in memory: no process has a folder of a task."""
    stores = [Store("totals", in_memory=True)]
    app.send(WORDS)
    settings = {"num_standby_replicas": 1, "session_timeout_ms": 30_000, "stores": stores}
    first, second = app.start(1, **settings), app.start(2, **settings)
    workers = {1: first, 2: second}
    for worker in workers.values():
        worker.until(lambda _, w=worker: _standbys(w.reported(AssignedEvent)) == PARTITIONS // 2)  # type: ignore[misc]
    app.until_counted()
    for word, total in app.sent.items():
        until(lambda w=word, t=total: [_read(each, w) for each in workers.values()] == [b"%d" % t] * 2)  # type: ignore[misc]
    assert not list(app.folder.glob("state-*/*/0_*"))
    first.stop()
    second.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted()


def _standbys(assigned: Sequence[AssignedEvent]) -> int:
    return len(assigned[-1].standby) if assigned else 0


def _read(running: Any, word: bytes) -> bytes | None:
    try:
        value: bytes | None = running.worker.read("totals", word, allow_standby=True)
    except KeyNotLocal:
        return None
    return value


def test_a_changelog_is_created_as_its_store_declares_and_the_other_with_kafkas_settings(app: App) -> None:
    app.start(1, count_twice, stores=STORES).until_running(PARTITIONS)
    totals, kept = f"{app.name}-totals-changelog", f"{app.name}-kept-changelog"
    own = ClusterAdmin(app.broker).own_settings([totals, kept], PATIENCE_S)
    usual = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert own == {kept: usual, totals: usual | {name: str(value) for name, value in CHANGELOG_CONFIG.items()}}
    app.workers[0].stop()
    assert not app.workers[0].reported(WarningsEvent)
    other = [Store("totals", in_memory=True, changelog_config={**CHANGELOG_CONFIG, "segment.ms": 7_200_000}), "kept"]
    again = app.start(2, count_twice, stores=other)
    again.until_running(PARTITIONS)
    [warning] = [event.warnings[0] for event in again.reported(WarningsEvent)]
    assert "segment.ms = 3600000 (declared: 7200000)" in warning


def test_a_value_that_the_brokers_refuse_ends_the_worker_before_it_joins(app: App) -> None:
    running = app.start(1, count, stores=[Store("totals", changelog_config={"segment.bytes": 1})])
    error = running.until_error()
    assert isinstance(error, ConfigError)
    assert f"refuse changelog_config = {{'segment.bytes': '1'}} for {app.name}-totals-changelog" in str(error)
    assert "segment.bytes" in str(error).rpartition("changelog: ")[2]
    assert not running.reported(AssignedEvent)
    assert f"{app.name}-totals-changelog" not in ClusterAdmin(app.broker).topics(PATIENCE_S)


def test_the_settings_that_are_known_are_those_of_the_broker_and_of_older_ones(app: App) -> None:
    resource, admin = (
        ConfigResource(ConfigResource.Type.TOPIC, app.name),
        AdminClient({"bootstrap.servers": app.broker}),
    )
    names: Mapping[str, Any] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert set(names) <= set(TOPIC_SETTINGS), json.dumps(sorted(set(names) - set(TOPIC_SETTINGS)))
    older = {"message.format.version", "message.downconversion.enable", "message.timestamp.difference.max.ms"}
    assert set(TOPIC_SETTINGS) - set(names) <= older
