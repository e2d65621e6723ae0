"""Workers as members of a streams group on a real broker: they join, hand tasks over, are killed, and come back."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import ConfigError, ShutdownRequested, TopologyMismatch
from kstreams_assign.events import (
    AssignedEvent,
    AwaitedTasksEvent,
    ClosedEvent,
    CommitRefusedEvent,
    DrainRefusedEvent,
    GroupStatusEvent,
    JoiningEvent,
    LostEvent,
    RestartAnnouncedEvent,
    RunningEvent,
    StalledEvent,
    WarmingElsewhereEvent,
    WarmingUpEvent,
    WarmJoinEvent,
    WarmLeaveEvent,
    WarningsEvent,
)
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, count, grow
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.process import Process
from tests.worker.streams_settings import set_group

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SESSION_MS, SHORT_MS = 30_000, 6_000
STREAMS: Mapping[str, Any] = {"group_protocol": "streams", "session_timeout_ms": SESSION_MS}
"""For workers that no test kills: a busy machine is no reason to lose the membership."""
SHORT: Mapping[str, Any] = {**STREAMS, "session_timeout_ms": SHORT_MS}
guarantees = pytest.mark.parametrize("guarantee", GUARANTEES)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)
    set_group(broker, app.name, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500)
    yield app
    app.stop()


def assert_exact(app: App, guarantee: str) -> None:
    """At least once no count is missing; exactly once each input has its one output, too."""
    exactly_once = guarantee == "exactly_once_v2"
    app.until_counted(read_committed=exactly_once)
    if exactly_once:
        assert committed_outputs(app) == each_once(app)


def until_no_repeats(app: App, guarantee: str) -> None:
    """At least once, wait until all is committed: what a killed or sleeping member had not committed is counted again.

    Exactly once, go on in the middle of the work: that is the harder case.
    """
    if guarantee == "at_least_once":
        app.until_committed()


def active(worker: Running) -> tuple[str, ...]:
    return worker.reported(AssignedEvent)[-1].active


def named(process: Process, event: str) -> list[Mapping[str, Any]]:
    return process.named(event)


@guarantees
def test_tasks_move_to_who_joins_and_back_when_it_leaves(app: App, guarantee: str) -> None:
    settings = {**STREAMS, "processing_guarantee": guarantee}
    app.send(WORDS)
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    second = app.start(2, **settings)
    app.send(WORDS)
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    app.send(WORDS)
    second.stop()
    first.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_committed()
    assert_exact(app, guarantee)
    assert not first.reported(LostEvent) + second.reported(LostEvent)
    assert not first.reported(CommitRefusedEvent)
    assert not any(event.warnings for event in first.reported(GroupStatusEvent))


@guarantees
def test_a_killed_member_loses_its_tasks_when_its_session_ends(app: App, guarantee: str) -> None:
    set_group(app.broker, app.name, session_timeout_ms=SHORT_MS)
    settings = {**SHORT, "processing_guarantee": guarantee}
    app.send(WORDS)
    first = Process(app, 1, **settings)
    second = app.start(2, **settings)
    first.until_running(PARTITIONS // 2)
    second.until_running(PARTITIONS // 2)
    until_no_repeats(app, guarantee)
    first.kill()
    app.send(WORDS)
    second.until_running(PARTITIONS)
    app.send(WORDS)
    assert_exact(app, guarantee)


@guarantees
def test_a_killed_member_that_comes_back_in_time_has_its_tasks_at_once(app: App, guarantee: str) -> None:
    """The state directory keeps the member id, so the coordinator takes it for the same member."""
    set_group(app.broker, app.name, session_timeout_ms=60_000)
    settings = {**STREAMS, "processing_guarantee": guarantee, "session_timeout_ms": 60_000}
    app.send(WORDS)
    first = Process(app, 1, **settings)
    second = app.start(2, **settings)
    first.until_running(PARTITIONS // 2)
    second.until_running(PARTITIONS // 2)
    until_no_repeats(app, guarantee)
    before, seen = active(second), len(second.reported(AssignedEvent))
    had = named(first, "assigned")[-1]["active"]
    first.kill()
    app.send(WORDS)
    back = app.start(1, **settings)
    back.until_running(PARTITIONS // 2)
    assert active(back) == tuple(had)
    assert {event.active for event in second.reported(AssignedEvent)[seen:]} <= {before}, "it got no other task"
    app.send(WORDS)
    assert_exact(app, guarantee)


@guarantees
def test_a_member_that_slept_beyond_its_session_writes_nothing_more_and_joins_again(app: App, guarantee: str) -> None:
    set_group(app.broker, app.name, session_timeout_ms=SHORT_MS)
    settings = {**SHORT, "processing_guarantee": guarantee}
    app.send(WORDS)
    sleeper = Process(app, 1, **settings)
    second = app.start(2, **settings)
    sleeper.until_running(PARTITIONS // 2)
    second.until_running(PARTITIONS // 2)
    until_no_repeats(app, guarantee)
    sleeper.stand_still()
    app.send(WORDS)
    second.until_running(PARTITIONS)
    app.send(WORDS)
    sleeper.go_on()
    sleeper.until(lambda _: bool(named(sleeper, "lost")))
    sleeper.until_running(PARTITIONS // 2)
    app.send(WORDS)
    assert_exact(app, guarantee)
    sleeper.close()


def test_a_process_joins_once_the_state_of_its_tasks_is_warm(app: App) -> None:
    app.send(WORDS * 10)
    first = app.start(1, **STREAMS)
    first.until_running(PARTITIONS)
    assert [event.reason for event in first.reported(WarmJoinEvent)] == ["the group has no members"]
    app.until_committed()
    second = app.start(2, **STREAMS)
    second.until_running(PARTITIONS // 2)
    (warming,) = second.reported(WarmingUpEvent)
    assert [event.reason for event in second.reported(WarmJoinEvent)] == [f"{PARTITIONS // 2} tasks are warm"]
    second.until_event(AwaitedTasksEvent, missing=())
    assert second.reported(AwaitedTasksEvent)[0].awaited == warming.tasks == active(second), "it was predicted"
    app.send(WORDS)
    app.until_counted()


def test_processes_that_start_together_predict_together_and_get_just_that(app: App) -> None:
    settings = {**STREAMS, "acceptable_recovery_lag": 0}
    app.send(WORDS)
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    app.until_committed()
    newcomers = [app.start(2, **settings), app.start(3, **settings)]
    for worker in newcomers:
        worker.until_event(AwaitedTasksEvent)
        (outcome,) = worker.reported(AwaitedTasksEvent)
        assert outcome.missing == ()
        worker.until_running(len(outcome.awaited))
        assert outcome.awaited == active(worker), "it was predicted"
        assert {event.restored for event in worker.reported(RunningEvent)} == {0}, "each task was warm"
        (joined,) = worker.reported(WarmJoinEvent)
        assert joined.reason.endswith("; 1 other joins with it")
    first.until_running(PARTITIONS - sum(len(active(worker)) for worker in newcomers))
    app.send(WORDS)
    app.until_counted()


def test_a_process_that_may_not_wait_joins_cold(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **STREAMS)
    first.until_running(PARTITIONS)
    second = app.start(2, warm_join=False, **STREAMS)
    second.until_running(PARTITIONS // 2)
    assert not second.reported(WarmingUpEvent)
    assert [event.reason for event in second.reported(WarmJoinEvent)] == ["warm_join = false"]
    app.until_counted()


class Hasty(Running):
    """A worker that is closed as soon as it begins to warm up."""

    def _hear(self, event: Event) -> None:
        super()._hear(event)
        if isinstance(event, WarmingUpEvent):
            self.worker.close()


def test_a_process_that_is_closed_before_it_is_warm_never_joins(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **STREAMS)
    first.until_running(PARTITIONS)
    app.until_committed()
    state = str(app.folder / "hasty")
    config = Config(application_id=app.name, bootstrap_servers=app.broker, state_dir=state, **STREAMS)
    hasty = Hasty(config, [Subtopology(count, [app.name], ["totals"], [f"{app.name}-counts"])])
    hasty.until_event(ClosedEvent)
    hasty.join()
    assert not hasty.reported(JoiningEvent)
    assert active(first) == tuple(f"0_{n}" for n in range(PARTITIONS))


def test_a_process_that_restarts_keeps_its_tasks(app: App) -> None:
    app.send(WORDS)
    first, second = app.start(1, **STREAMS), app.start(2, **STREAMS)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    app.until_counted()
    before, seen = {1: active(first), 2: active(second)}, len(second.reported(AssignedEvent))
    first.worker.close(restart=True)
    first.until_event(ClosedEvent)
    assert [event.awaited for event in first.reported(RestartAnnouncedEvent)] == [True]
    back = app.start(1, **STREAMS)
    back.until_running(PARTITIONS // 2)
    assert active(back) == before[1]
    assert {event.restored for event in back.reported(RunningEvent)} == {0}
    assert {event.active for event in second.reported(AssignedEvent)[seen:]} <= {before[2]}
    app.send(WORDS)
    app.until_counted()


def test_a_call_that_takes_too_long_makes_the_member_leave_until_it_returns(app: App) -> None:
    """As in a classic group (KIP-62), the others go on with its tasks."""
    armed, released = threading.Event(), threading.Event()

    def slow(task: Task, records: Sequence[Record]) -> None:
        if armed.is_set():
            released.wait(PATIENCE_S)
        count(task, records)

    app.send(WORDS)
    first = app.start(1, slow, max_poll_interval_ms=2_000, **STREAMS)
    second = app.start(2, **STREAMS)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    app.until_counted()
    armed.set()
    app.send(WORDS)
    first.until_event(StalledEvent)
    second.until_running(PARTITIONS)
    app.until_counted()
    armed.clear()
    released.set()
    first.until_event(LostEvent)  # or it may still run what it had
    first.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted()


@guarantees
@pytest.mark.parametrize("restart", [False, True])
def test_a_call_that_outlasts_the_session_while_a_worker_closes_is_committed(
    app: App, guarantee: str, *, restart: bool
) -> None:
    """Its heartbeats go on until it leaves, so no other member runs its tasks meanwhile."""
    stuck, armed, released = threading.Event(), threading.Event(), threading.Event()

    def slow(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        if armed.is_set():
            stuck.set()
            released.wait(PATIENCE_S)

    settings = {**SHORT, "processing_guarantee": guarantee}
    set_group(app.broker, app.name, session_timeout_ms=SHORT_MS, heartbeat_interval_ms=500)
    app.send(WORDS)
    first = app.start(1, slow, **settings)
    first.until_running(PARTITIONS)
    second = app.start(2, **settings)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    app.until_committed()
    owned = active(second)
    armed.set()
    app.send(WORDS)
    assert stuck.wait(PATIENCE_S)
    first.worker.close(restart=restart)
    threading.Event().wait(1.5 * SHORT_MS / 1000)
    assert active(second) == owned
    armed.clear()
    released.set()
    first.until_event(ClosedEvent)
    assert not first.reported(LostEvent) + first.reported(CommitRefusedEvent)
    assert_exact(app, guarantee)


@guarantees
def test_a_member_that_drains_leaves_once_its_tasks_are_warm_at_the_others(app: App, guarantee: str) -> None:
    settings = {**STREAMS, "processing_guarantee": guarantee, "acceptable_recovery_lag": 0}
    app.send(WORDS * 10)
    workers = [app.start(1, **settings)]
    workers[0].until_running(PARTITIONS)
    for number in (2, 3):
        workers.append(app.start(number, **settings))
        workers[-1].until_event(AwaitedTasksEvent, missing=())
    app.until_committed()
    leaver = workers[0]
    had = active(leaver)
    leaver.worker.drain()
    leaver.until_event(ClosedEvent)
    (left,) = leaver.reported(WarmLeaveEvent)
    assert (left.warm, left.cold) == (had, ())
    assert not leaver.reported(DrainRefusedEvent)
    expected = leaver.reported(WarmingElsewhereEvent)[-1].tasks
    assert tuple(sorted(expected)) == had
    prepared: list[str] = []
    for worker in workers[1:]:
        for warming in [event for event in worker.reported(WarmingUpEvent) if event.leavers]:
            assert warming.time_ms < left.time_ms
            assert len({expected[task] for task in warming.tasks}) == 1, "they are one member's"
            prepared += warming.tasks
            worker.until_event(AwaitedTasksEvent, awaited=warming.tasks, missing=())
            worker.until_running(PARTITIONS // 2)
            running = {event.task: event for event in worker.reported(RunningEvent)}
            for task in warming.tasks:
                assert running[task].time_ms > left.time_ms
                assert running[task].restored == 0, "it was warm before the leave"
    assert tuple(sorted(prepared)) == had
    app.send(WORDS)
    app.until_committed()
    assert_exact(app, guarantee)


def test_members_that_drain_at_the_same_time_give_nothing_to_each_other(app: App) -> None:
    settings = {**STREAMS, "acceptable_recovery_lag": 0}
    app.send(WORDS)
    stayer = app.start(1, **settings)
    stayer.until_running(PARTITIONS)
    leavers = [app.start(number, **settings) for number in (2, 3)]
    for worker in leavers:
        worker.until_event(AwaitedTasksEvent)
        worker.until(lambda _, worker=worker: bool(worker.reported(RunningEvent)))
    app.until_committed()
    had = {task for worker in leavers for task in active(worker)}
    for worker in leavers:
        worker.worker.drain()
    for worker in leavers:
        worker.until_event(ClosedEvent)
        (left,) = worker.reported(WarmLeaveEvent)
        assert left.cold == ()
    stayer.until_running(PARTITIONS)
    running = {event.task: event for event in stayer.reported(RunningEvent)}
    assert {running[task].restored for task in had} == {0}
    app.send(WORDS)
    app.until_counted()


def test_a_member_that_nobody_restores_for_leaves_and_says_why(app: App) -> None:
    app.send(WORDS)
    first, second = app.start(1, **STREAMS), app.start(2, warm_join=False, **STREAMS)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    second.worker.drain()
    second.until_event(ClosedEvent)
    assert second.reported(DrainRefusedEvent)[0].warnings[0].startswith("warm_join = false: ")
    first.until_running(PARTITIONS)
    first.worker.drain()
    first.until_event(ClosedEvent)
    assert first.reported(DrainRefusedEvent)[0].warnings[0].startswith("no other member stays in the group: ")
    app.until_counted()


def test_all_members_commit_and_end_if_one_asks_for_it(app: App) -> None:
    app.send(WORDS)
    workers = [app.start(1, **STREAMS), app.start(2, **STREAMS)]
    for worker in workers:
        worker.until_running(PARTITIONS // 2)
    app.until_counted()
    app.send(WORDS)
    workers[0].worker.shut_application_down()
    for worker in workers:
        assert isinstance(worker.until_error(), ShutdownRequested)
        worker.join()


def test_a_topic_that_grows_brings_tasks_for_its_new_partitions(app: App) -> None:
    app.send(WORDS)
    worker = app.start(1, stores=(), process=forward, **STREAMS)
    worker.until_running(PARTITIONS)
    grow(app.broker, app.name, PARTITIONS + 2)
    worker.until_running(PARTITIONS + 2)


def test_a_member_with_another_topology_is_refused_with_the_difference(app: App) -> None:
    worker = app.start(1, **STREAMS)
    worker.until_running(PARTITIONS)
    other = app.start(2, stores=("totals", "more"), **STREAMS)
    error = other.until_error()
    assert isinstance(error, TopologyMismatch)
    assert f"subtopology 0: changelogs: {app.name}-more-changelog, {app.name}-totals-changelog here" in str(error)
    app.send(WORDS)
    app.until_counted()


def test_settings_that_the_group_has_are_warned_about_or_refused(app: App) -> None:
    worker = app.start(1, num_standby_replicas=1, assignor="sticky", **STREAMS)
    worker.until_running(PARTITIONS)
    warnings = worker.reported(WarningsEvent)[0].warnings
    assert [warning.partition(" = ")[0] for warning in warnings] == ["assignor", "num_standby_replicas"]
    long = app.start(2, **{**STREAMS, "session_timeout_ms": SESSION_MS + 1})
    error = long.until_error()
    assert isinstance(error, ConfigError)
    assert f"must be at most streams.session.timeout.ms = {SESSION_MS}" in str(error)


def test_brokers_with_streams_groups_off_are_named(broker: str, tmp_path: Path) -> None:  # noqa: ARG001  # the part
    with LocalBroker(settings={"group.coordinator.rebalance.protocols": "classic,consumer"}) as own:
        app = App(own.bootstrap_servers, "off", tmp_path)
        error = app.start(1, group_protocol="streams").until_error()
        app.stop()
    assert isinstance(error, ConfigError)
    assert "the brokers have no streams groups: they need Kafka 4.1 or later" in str(error)


def test_a_source_pattern_is_refused_before_the_join(app: App) -> None:
    config = Config(
        application_id=app.name, bootstrap_servers=app.broker, state_dir=str(app.folder / "pattern"), **STREAMS
    )
    worker = Worker(config, [Subtopology(forward, [], sources_pattern="a-.*")])
    with pytest.raises(ConfigError, match="streams groups have no patterns"):
        worker.run()


def forward(task: Task, records: Sequence[Record]) -> None:
    """Keep nothing."""
