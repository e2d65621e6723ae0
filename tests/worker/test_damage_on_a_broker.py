"""Damage end to end: a real broker, real workers, and damage to their state and their changelogs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from kstreams_assign import Config, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import (
    StateDirMadeAnewEvent,
    StoreDiscardedEvent,
    StoreFailedEvent,
    StoreWipedEvent,
    TaskResumedEvent,
    TaskStoppedEvent,
)
from tests.worker.app import PARTITIONS, App, Running, count, until_newest

KEYS = [b"key-%d" % n for n in range(40)]


@pytest.fixture
def app(broker: str, tmp_path: Path) -> Iterator[App]:
    app = App(broker, f"damage-{uuid4().hex[:8]}", tmp_path)
    yield app
    app.stop()


def changelog(app: App) -> str:
    return f"{app.name}-totals-changelog"


def delete_changelog(app: App) -> None:
    admin = AdminClient({"bootstrap.servers": app.broker})
    admin.delete_topics([changelog(app)])[changelog(app)].result(60)
    there = ClusterAdmin(app.broker)
    while there.partition_counts([changelog(app)], 60):
        pass


def make_changelog(app: App, keys: Sequence[bytes]) -> None:
    settings = {changelog(app): {"cleanup.policy": "compact"}}
    ClusterAdmin(app.broker).create_topics({changelog(app): PARTITIONS}, 60, configs=settings)
    for key in keys:
        app._producer.produce(changelog(app), None, key, b"7")
    app._producer.flush(60)


def run_once(app: App) -> None:
    """A worker counts what was sent, and ends."""
    app.send(KEYS)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    app.until_counted()
    worker.stop()


def totals(worker: Running, keys: Sequence[bytes]) -> set[bytes | None]:
    return {worker.worker.read("totals", key) for key in keys}


def test_a_changelog_recreated_while_no_worker_ran_is_noticed_though_it_is_longer(app: App) -> None:
    run_once(app)
    delete_changelog(app)
    new = [b"new-%d" % n for n in range(200)]
    make_changelog(app, new)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    wiped = worker.reported(StoreWipedEvent)
    assert len(wiped) == PARTITIONS
    assert all("its topic id has changed" in event.reason for event in wiped)
    assert (totals(worker, new), totals(worker, KEYS)) == ({b"7"}, {None})


def test_a_changelog_deleted_under_a_copy_stops_the_copy_until_it_is_there_again(app: App) -> None:
    app.send(KEYS)
    workers = [app.start(number, num_standby_replicas=1) for number in (1, 2)]
    for worker in workers:
        worker.until_running(PARTITIONS // 2)
    app.until_counted()
    app.until_committed()  # or a commit would be under way into the deleted changelog
    delete_changelog(app)
    for worker in workers:
        worker.until(lambda events: sum(isinstance(e, TaskStoppedEvent) for e in events) == PARTITIONS // 2)
        assert all("does not exist" in event.reason for event in worker.reported(TaskStoppedEvent))
    make_changelog(app, [])
    for worker in workers:
        worker.until(lambda events: sum(isinstance(e, TaskResumedEvent) for e in events) == PARTITIONS // 2)
        assert len(worker.reported(StoreWipedEvent)) == PARTITIONS // 2
        assert len(worker.reported(TaskStoppedEvent)) == PARTITIONS // 2, "once each"


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_changelog_deleted_under_its_owner_stops_its_tasks_and_no_others(app: App, guarantee: str) -> None:
    app.send(KEYS)
    ClusterAdmin(app.broker).create_topics({f"{app.name}-2": 1}, 60)
    config = Config(
        application_id=app.name,
        bootstrap_servers=app.broker,
        state_dir=str(app.folder / "state"),
        processing_guarantee=guarantee,
        session_timeout_ms=6_000,
    )
    mine = Subtopology(process=count, sources=[app.name], stores=["totals"], sinks=[f"{app.name}-counts"])
    others = Subtopology(process=seen, sources=[f"{app.name}-2"], stores=["seen"])
    worker = Running(config, [mine, others])
    app.workers.append(worker)
    worker.until_running(PARTITIONS + 1)
    app.until_counted()
    app.until_committed()
    delete_changelog(app)
    app.send(KEYS)
    send_to(app, f"{app.name}-2")
    worker.until(lambda events: len({e.task for e in events if isinstance(e, TaskStoppedEvent)}) == PARTITIONS)
    assert all("does not exist" in event.reason for event in worker.reported(TaskStoppedEvent))
    until_newest(
        app.broker, f"{app.name}-seen-changelog", 1, {b"k": 1}, read=lambda _: 1
    )  # maybe twice: its first commit may be the one that fails
    make_changelog(app, [])
    worker.until_running(PARTITIONS + 1)
    app.until_committed()
    assert {event.task for event in worker.reported(TaskResumedEvent)} == {f"0_{n}" for n in range(PARTITIONS)}


def seen(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        assert record.key is not None
        task.store("seen").put(record.key, b"%d" % (int(task.store("seen").get(record.key) or b"0") + 1))


def send_to(app: App, topic: str) -> None:
    app._producer.produce(topic, 0, b"k", b"x")
    app._producer.flush(60)


def test_a_damaged_table_costs_its_task_a_restore_and_no_count(app: App) -> None:
    run_once(app)
    for table in (app.folder / "state-1" / app.name / "0_0").glob("*.sst"):
        content = table.read_bytes()
        table.write_bytes(bytes(byte ^ 255 for byte in content[:100]) + content[100:])
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    app.send(KEYS)
    app.until_counted()
    assert [event.task for event in worker.reported(StoreDiscardedEvent)] == ["0_0"]
    worker.until_running(PARTITIONS)
    app.until_committed()  # what is in the changelog comes into the store a moment later
    assert totals(worker, KEYS) == {b"2"}


def test_a_state_directory_deleted_under_a_worker_costs_no_count(app: App) -> None:
    app.send(KEYS)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    app.until_counted()
    shutil.rmtree(app.folder / "state-1")
    app.send(KEYS)
    app.until_counted()
    worker.until_event(StateDirMadeAnewEvent)
    worker.stop()
    app.send(KEYS)
    restarted = app.start(1)
    app.until_counted()
    restarted.until_running(PARTITIONS)
    app.until_committed()
    assert totals(restarted, KEYS) == {b"3"}


def test_a_changelog_recreated_under_its_owner_is_noticed_by_its_next_commit(app: App) -> None:
    app.send(KEYS)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    app.until_counted()
    app.until_committed()  # or a commit would be under way into the deleted changelog
    delete_changelog(app)
    make_changelog(app, [])
    app.send(KEYS[:1])
    worker.until_event(StoreWipedEvent)
    worker.until_running(PARTITIONS)
    [wiped] = {event.task for event in worker.reported(StoreWipedEvent)}
    [failed] = worker.reported(StoreFailedEvent)
    assert (failed.task, "has gone back" in failed.reason) == (wiped, True)
    app.until_committed()  # only then it is in the store again
    assert worker.worker.read("totals", KEYS[0]) is not None
