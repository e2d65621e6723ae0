"""Records that a broker's disk has damaged, and what a worker makes of them: a task, a table, or all of it stops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from kstreams_assign import Config, GlobalTable, Record, Subtopology, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import (
    GlobalTableReadyEvent,
    GlobalTableStoppedEvent,
    StoreWipedEvent,
    TaskResumedEvent,
    TaskStoppedEvent,
)
from kstreams_assign.local import LocalBroker
from tests.adapters.confluent_cluster import put
from tests.adapters.damaged_log import damaged
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, until

KEYS = [b"key-%d" % n for n in range(40)]


@pytest.fixture(scope="module")
def own(broker: str) -> Iterator[LocalBroker]:  # noqa: ARG001  # the part
    with LocalBroker() as started:
        yield started


@pytest.fixture
def app(own: LocalBroker, tmp_path: Path) -> Iterator[App]:
    app = App(own.bootstrap_servers, f"unreadable-{uuid4().hex[:8]}", tmp_path)
    yield app
    app.stop()


def cannot_be_read(at: TopicPartition) -> str:
    return rf"{at} cannot be read from offset 0 on: .* failed CRC32C check"


def test_a_changelog_stops_its_task_alone_until_it_can_be_read(own: LocalBroker, app: App) -> None:
    app.send(KEYS)
    first = app.start(1)
    first.until_running(PARTITIONS)
    app.until_counted()
    first.stop()
    at = TopicPartition(f"{app.name}-totals-changelog", 1)
    with damaged(own.data_dir, at, 0):
        second = app.start(2)
        second.until_running(PARTITIONS - 1)
        second.until_event(TaskStoppedEvent, task="0_1")
        (stopped,) = second.reported(TaskStoppedEvent)
        assert re.match(cannot_be_read(at), stopped.reason)
    second.until_event(TaskResumedEvent, task="0_1")
    second.until_running(PARTITIONS)
    app.send(KEYS)
    app.until_counted()
    assert (second.reported(StoreWipedEvent), len(second.reported(TaskStoppedEvent))) == ([], 1)


def test_input_ends_the_worker_with_its_place_and_is_not_passed_over(own: LocalBroker, app: App) -> None:
    app.send(KEYS)
    at = TopicPartition(app.name, 1)
    with damaged(own.data_dir, at, 0):
        error = app.start(1).until_error()
        assert isinstance(error, BrokerError)
        assert re.match(cannot_be_read(at), str(error))
        with closing(CommittedOffsets(app.broker, None, group_id=app.name)) as committed:
            assert committed.read([at], PATIENCE_S).get(at, 0) == 0
    app.start(2).until_running(PARTITIONS)
    app.until_counted()


def test_the_topic_of_a_global_table_stops_the_table_until_it_can_be_read(own: LocalBroker, app: App) -> None:
    at, looked_up = TopicPartition(f"{app.name}-codes", 0), []

    def look_up(task: Task, records: Sequence[Record]) -> None:
        looked_up.extend(task.global_table("codes").get(record.key or b"") for record in records)

    ClusterAdmin(app.broker).create_topics({at.topic: 1}, PATIENCE_S, configs={at.topic: {"cleanup.policy": "compact"}})
    put(app.broker, at, [(b"code", b"country")])
    config = Config(app.name, app.broker, str(app.folder / "state"))
    with damaged(own.data_dir, at, 0):
        tables = [GlobalTable("codes", topic=at.topic)]
        worker = Running(config, [Subtopology(look_up, sources=[app.name])], global_tables=tables)
        app.workers.append(worker)
        app.send([b"code"])
        worker.until_event(GlobalTableStoppedEvent, table="codes")
        (stopped,) = worker.reported(GlobalTableStoppedEvent)
        assert re.match(cannot_be_read(at), stopped.reason)
        assert looked_up == []
    worker.until_event(GlobalTableReadyEvent, table="codes", offsets=1)
    until(lambda: bool(looked_up))
    assert looked_up == [b"country"]
