"""Workers of ours as a group on a real broker: who works, who warms up, and that nothing is lost on the way."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import UnknownError

from kstreams_assign import Config, Record, Subtopology, Task, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import AssignmentRefused, ConfigError, StateDirectoryLocked, TopologyMismatch
from kstreams_assign.events import (
    AssignedEvent,
    BrokerUnavailableEvent,
    ClosedEvent,
    CommitRefusedEvent,
    DecisionEvent,
    Event,
    FunctionFailedEvent,
    RunningEvent,
    StatusEvent,
)
from tests.worker.app import PARTITIONS, App, Running, count

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]


def test_one_worker_counts_everything_and_a_second_one_takes_half(app: App) -> None:
    settings = {
        "num_standby_replicas": 1,
        "acceptable_recovery_lag": 10_000,
    }  # however many commits it took: no warm-up
    app.send(WORDS)
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    app.until_counted()
    second = app.start(2, **settings)
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted()
    assert not first.reported(CommitRefusedEvent) + second.reported(CommitRefusedEvent)
    decisions = sorted(first.reported(DecisionEvent) + second.reported(DecisionEvent), key=lambda event: event.time_ms)
    assert [decision.kind for decision in decisions] == ["round", "round", "follow_up"]
    assert sum(len(decision.changed) for decision in decisions) == PARTITIONS // 2


@pytest.mark.parametrize("user_data", ["apache", "kip441"])
def test_a_newcomer_without_state_warms_up_before_it_works(app: App, user_data: str) -> None:
    settings = {"acceptable_recovery_lag": 0, "max_warmup_replicas": 4, "user_data": user_data}
    app.send(WORDS)
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    app.until_counted()
    second = app.start(2, **settings)
    second.until(_has_warm_ups)
    assert first.reported(DecisionEvent)[-1].next_probe_ms is not None
    assert not second.reported(RunningEvent)
    second.until(_caught_up)
    first.worker.rejoin("do not wait a minute for the probe")
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted()


def _has_warm_ups(events: Sequence[Event]) -> bool:
    return any(isinstance(e, AssignedEvent) and e.warmup and not e.active for e in events)


def _caught_up(events: Sequence[Event]) -> bool:
    tasks = [e for e in events if isinstance(e, StatusEvent)][-1:]
    return bool(tasks and tasks[0].tasks) and all(task.lag == 0 for task in tasks[0].tasks.values())


def test_a_closed_worker_leaves_at_once_and_its_standby_goes_on(app: App) -> None:
    app.send(WORDS)
    first, second = (app.start(number, num_standby_replicas=1, session_timeout_ms=120_000) for number in (1, 2))
    first.until_running(PARTITIONS // 2)
    second.until_running(PARTITIONS // 2)
    app.until_counted()
    started = time.monotonic()
    second.stop()
    first.until_running(PARTITIONS)
    assert time.monotonic() - started < 60, "the session timeout is 120 s: it was not waited for"
    app.send(WORDS)
    app.until_counted()


def test_state_that_is_gone_is_restored_from_the_changelog(app: App) -> None:
    app.send(WORDS)
    app.start(1).until_running(PARTITIONS)
    app.until_counted()
    app.workers.pop().stop()
    shutil.rmtree(app.folder / "state-1")
    app.start(1).until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted()


def test_a_restarted_worker_keeps_its_identity_and_its_state(app: App) -> None:
    app.send(WORDS)
    first = app.start(1)
    first.until_running(PARTITIONS)
    app.until_counted()
    identity = first.worker.process_id
    app.workers.pop().stop()
    restarted = app.start(1)
    assert restarted.worker.process_id == identity
    restarted.until_running(PARTITIONS)
    app.until_counted()


def test_a_wall_clock_that_is_set_back_stops_no_commits(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.send(WORDS)
    app.start(1).until_running(PARTITIONS)
    app.until_counted()
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() - 3_600 * 10**9)
    app.send(WORDS)
    app.until_counted()


def test_an_error_in_the_users_code_ends_the_worker_and_commits_nothing_of_it(app: App) -> None:
    def broken(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        raise RuntimeError("a bug of the user's")

    app.send(WORDS)
    running = app.start(1, broken)
    error = running.until_error()
    assert str(error) == "a bug of the user's"
    [failed] = running.reported(FunctionFailedEvent)
    place = f"task {failed.task}, {failed.partition} at offset {failed.offset} (batch of {failed.records} "
    assert [note.startswith(place) for note in error.__notes__] == [True]
    assert failed.reason == running.reported(ClosedEvent)[0].error == "RuntimeError: a bug of the user's"
    running.stop()
    app.start(2).until_running(PARTITIONS)
    app.until_counted()


def test_two_processes_cannot_share_a_state_directory(app: App) -> None:
    app.start(1)
    with pytest.raises(StateDirectoryLocked):
        app.start(1)


def test_every_member_names_the_missing_source_topic(broker: str, tmp_path: Path) -> None:
    """Two members join together: the leader and the follower end with the same error."""
    app = App(broker, "has-topics", tmp_path)
    app.name = "has-none"
    ClusterAdmin(broker).create_topics({"has-none-counts": 1}, 60)
    for running in [app.start(number) for number in (1, 2)]:
        error = running.until_error()
        assert isinstance(error, AssignmentRefused)
        assert "source topics do not exist: has-none; create them" in str(error)


def test_a_member_without_a_topic_of_the_leaders_ends_with_the_reason_and_the_others_take_its_tasks(
    broker: str, tmp_path: Path
) -> None:
    """kafka-python would join again and again, and its share would run nowhere."""
    names, process = ["one-topic-more", "one-topic-more-new"], lambda _task, _records: None
    ClusterAdmin(broker).create_topics(dict.fromkeys(names, 2), 60)

    def start(number: int, *topics: str) -> Running:
        config = Config(names[0], broker, state_dir=str(tmp_path / str(number)))
        return Running(config, [Subtopology(process, sources=[topic]) for topic in topics])

    leader = start(1, *names)
    try:
        leader.until_running(4)
        old = start(2, names[0])
        try:
            error = old.until_error()
        finally:
            old.stop()
        assert isinstance(error, TopologyMismatch)
        assert names[1] in str(error)
        leader.until_running(4)
        assert leader.error is None
    finally:
        leader.stop()


def test_a_coordinator_that_cannot_keep_an_assignment_is_asked_again(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is with a group whose record is too large, until the limit is raised."""
    app.send(WORDS)
    first = app.start(1)
    first.until_running(PARTITIONS)
    real, failing = ConsumerCoordinator._process_sync_group_response, True

    def fail(coordinator: ConsumerCoordinator, response: Any, send_time: float) -> Any:
        if failing:
            raise UnknownError
        return real(coordinator, response, send_time)

    monkeypatch.setattr(ConsumerCoordinator, "_process_sync_group_response", fail)
    second = app.start(2)
    second.until_event(BrokerUnavailableEvent)
    assert "above max.message.bytes" in second.reported(BrokerUnavailableEvent)[0].reason
    failing = False
    second.until_running(PARTITIONS // 2)
    assert (first.error, second.error) == (None, None)
    app.until_counted()


def test_a_changelog_with_the_wrong_partition_count_is_refused_by_both_numbers(app: App) -> None:
    ClusterAdmin(app.broker).create_topics({f"{app.name}-totals-changelog": 3}, 60)
    running = app.start(1)
    error = running.until_error()
    assert isinstance(error, TopologyMismatch)
    assert "expected: 4; actual: 3" in str(error)


def test_a_missing_sink_is_refused_at_start_and_not_at_each_commit(broker: str, tmp_path: Path) -> None:
    ClusterAdmin(broker).create_topics({"no-sink": 1}, 60)
    config = Config("no-sink", broker, state_dir=str(tmp_path))
    worker = Worker(config, [Subtopology(count, sources=["no-sink"], stores=["totals"], sinks=["no-sink-counts"])])
    with pytest.raises(ConfigError, match="do not exist: no-sink-counts"):
        worker.run()
