"""A group whose metadata comes near the largest record of a broker, on brokers that take little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kstreams_assign.adapters.confluent.group_records import last_group_record
from kstreams_assign.events import DecisionEvent
from kstreams_assign.group.size import RECORD_BYTES_MAX
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, App, Running

WORDS = [b"word-%d" % (n % 97) for n in range(500)]
SETTINGS = {"num_standby_replicas": 1}


@contextmanager
def two_workers(broker: str, name: str, folder: Path) -> Iterator[tuple[App, list[Running]]]:
    app = App(broker, name, folder)
    try:
        app.send(WORDS)
        endpoint = "a-host-with-a-long-name.orders.example"
        workers = [app.start(n, application_server=f"{endpoint}:{8080 + n}", **SETTINGS) for n in (1, 2)]
        for worker in workers:
            worker.until_running(PARTITIONS // 2)
        yield app, workers
    finally:
        app.stop()


def decisions(workers: list[Running]) -> list[DecisionEvent]:
    return sorted((e for worker in workers for e in worker.reported(DecisionEvent)), key=lambda event: event.time_ms)


@pytest.fixture(scope="module")
def record_bytes(broker: str, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the size of the metadata record of two workers' group; the leader's estimate must equal it."""
    with two_workers(broker, "big-whole", tmp_path_factory.mktemp("whole")) as (app, workers):
        thought = decisions(workers)[-1].record_bytes
        record = last_group_record(broker, None, app.name, 60)
        assert record is not None
        assert record.value is not None
        assert len(record.value) <= thought <= len(record.value) * 1.1
        return thought


def test_far_below_the_limit_there_is_no_warning(broker: str, record_bytes: int, tmp_path: Path) -> None:
    assert record_bytes < RECORD_BYTES_MAX // 100
    with two_workers(broker, "big-again", tmp_path) as (_, workers):
        assert not any("one record of" in w for event in decisions(workers) for w in event.warnings)


def test_where_the_record_would_be_refused_the_leader_leaves_out_what_it_can_and_the_group_works(
    record_bytes: int, tmp_path: Path
) -> None:
    limit = record_bytes * 19 // 20  # a name as long makes a record as large
    with LocalBroker() as narrow:
        narrow_groups(narrow.bootstrap_servers, tmp_path, limit)
        with two_workers(narrow.bootstrap_servers, "big-small", tmp_path) as (app, workers):
            check_trimmed(narrow.bootstrap_servers, app, workers, limit)


def narrow_groups(broker: str, folder: Path, limit: int) -> None:
    """Let the broker refuse larger records of groups; its other topics take what they did."""
    first = App(broker, "first", folder)  # the first group makes the topic
    first.start(1).until_running(PARTITIONS)
    first.stop()
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker})  # kept until it has answered
    admin.incremental_alter_configs([topic])[topic].result(60)


def check_trimmed(broker: str, app: App, workers: list[Running], limit: int) -> None:
    (warning,) = {w for event in decisions(workers)[-1:] for w in event.warnings if "one record of" in w}
    assert f"the brokers take {limit:,}" in warning
    assert "left out" in warning
    app.until_counted()
    record = last_group_record(broker, None, app.name, 60)
    assert record is not None
    assert record.value is not None
    assert len(record.value) <= limit
