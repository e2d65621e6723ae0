"""``GroupMember`` in a streams group on a real broker: alone, beside another, beside a worker, and beside Java."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign import Assignment, CommitDue, Drained, GroupMember, Lost, Store, SubtopologyShape, TopicPartition
from kstreams_assign.adapters.confluent.transactions import group_metadata
from kstreams_assign.adapters.kafka_python import streams_coordinator
from kstreams_assign.errors import CommitRefused, ShutdownRequested, StateDirectoryLocked
from kstreams_assign.events import (
    ClosedEvent,
    JoiningEvent,
    RestartAnnouncedEvent,
    RunningEvent,
    WarmJoinEvent,
    WarmLeaveEvent,
)
from kstreams_assign.wire import StreamsHeartbeatRequest
from kstreams_assign.wire.streams_heartbeat import LEAVE_EPOCH
from kstreams_assign.worker.group_member import GroupEvent
from tests.adapters.confluent_cluster import transactional, until
from tests.worker.app import PARTITIONS, PATIENCE_S, App
from tests.worker.own_loop import OwnLoop, settings_of
from tests.worker.streams_settings import set_group
from tests.worker.test_streams_group_on_a_broker import SESSION_MS, STREAMS, WORDS
from tests.worker.test_with_java import LONG, Mixed, mixed  # noqa: F401  # the fixture

STORE = "totals"
HEARTBEAT_MS = 500


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, "own-" + re.sub(r"[^a-z0-9]+", "-", request.node.name)[-56:].strip("-"), tmp_path)
    set_group(
        broker,
        app.name,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        initial_rebalance_delay_ms=0,
    )
    yield app
    app.stop()


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """Loops that the test did not stop are stopped at its end."""
    with ExitStack() as ends:
        yield ends


def loop(app: App, number: int, ends: ExitStack, member_dir: Path | None = None, **settings: object) -> OwnLoop:
    config = settings_of(app.name, app.broker, **{"acceptable_recovery_lag": 0, **settings})
    started = OwnLoop(config, app.name, STORE, number, member_dir=member_dir)
    ends.callback(started.stop)
    return started


def member_of(app: App, number: int, **settings: object) -> GroupMember:
    """A member that the test answers for itself."""
    config = settings_of(app.name, app.broker, **settings)
    return GroupMember(config, [SubtopologyShape((app.name,), (Store(STORE),))], UUID(int=number))


def next_event(member: GroupMember) -> GroupEvent:
    event = until(lambda: member.poll(1), lambda event: event is not None)
    assert event is not None
    return event


def next_assignment(member: GroupMember) -> Assignment:
    event = next_event(member)
    assert isinstance(event, Assignment)
    return event


def let_go_until_active(member: GroupMember, tasks: int) -> Assignment:
    """Answer until this member has so many active tasks; the last assignment is not answered."""
    while len((event := next_assignment(member)).active) != tasks:
        member.let_go()
    return event


def lease_end_s(member: GroupMember) -> float:
    """Return until when the member may write (monotonic), after a moment."""
    threading.Event().wait(0.05)
    return time.monotonic() + member.lease_left_s()


def test_one_member_has_all_tasks_and_commits_under_its_epoch(app: App) -> None:
    at = TopicPartition(app.name, 0)
    with member_of(app, 1, processing_guarantee="exactly_once_v2") as member:
        given = let_go_until_active(member, PARTITIONS)
        assert (given.standby, given.warmup, given.revoked) == (frozenset(), frozenset(), frozenset())
        member.let_go()
        member.commit({at: 3}, PATIENCE_S)
        assert member.committed([at], PATIENCE_S) == {at: 3}
        assert 0 < member.lease_left_s() <= SESSION_MS / 1000
        member.rejoin("no effect")
        producer = transactional(app.broker)
        mine = member._membership.transaction_member()
        stale = group_metadata(app.name, mine._replace(generation=mine.generation - 1))
        producer.begin_transaction()
        with pytest.raises(KafkaException, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction([ClientPartition(*at, 4)], stale, PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([ClientPartition(*at, 5)], member.group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
        assert member.committed([at], PATIENCE_S) == {at: 5}
        assert member.poll(0) is None
    with streams_coordinator(app.broker, {}, PATIENCE_S) as coordinator:
        group = coordinator.describe(app.name, PATIENCE_S)
    assert group is not None
    assert group.members == ()


def test_a_second_member_restores_first_and_gets_a_task_only_after_the_first_has_let_it_go(app: App) -> None:
    app.send(WORDS)
    with ExitStack() as filled:
        loop(app, 1, filled)
        app.until_counted()
    with member_of(app, 1) as first:
        let_go_until_active(first, PARTITIONS)
        first.let_go()
        with member_of(app, 2, acceptable_recovery_lag=0) as second:
            warming = next_assignment(second)
            assert (warming.generation, len(warming.warmup), warming.active) == (0, PARTITIONS // 2, {})
            second.let_go()
            assert second.lease_left_s() == 0, "it has not joined"
            with pytest.raises(CommitRefused):
                second.commit({TopicPartition(app.name, 0): 1})
            for task in warming.warmup:
                changelog = second.changelogs(task)[STORE]
                second.at(task, {changelog: sum(app.sent.values())})
            given = next_assignment(first)
            assert given.revoked == warming.warmup
            assert given.active.keys().isdisjoint(warming.warmup)
            first.commit({TopicPartition(app.name, task.partition): 1 for task in given.revoked}, PATIENCE_S)
            while (event := second.poll(2)) is not None:
                assert isinstance(event, Assignment)
                assert not event.active, "the first member has not let it go"
                second.let_go()
            first.let_go()
            assert let_go_until_active(second, PARTITIONS // 2).active.keys() == warming.warmup
            second.let_go()


def test_a_member_that_may_not_wait_joins_cold(app: App, ends: ExitStack) -> None:
    app.send(WORDS)
    first = loop(app, 1, ends)
    first.until_running(PARTITIONS)
    app.until_committed()
    second = loop(app, 2, ends, warm_join=False)
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    assert [event.reason for event in second.reported(WarmJoinEvent)] == ["warm_join = false"]
    assert sum(second.restored.values()) > 0
    app.send(WORDS)
    app.until_counted()


def test_tasks_move_warm_between_a_worker_and_a_loop_that_join_and_drain(app: App, ends: ExitStack) -> None:
    app.send(WORDS)
    worker = app.start(1, acceptable_recovery_lag=0, **STREAMS)
    worker.until_running(PARTITIONS)
    app.until_committed()
    ours = loop(app, 2, ends)
    ours.until_running(PARTITIONS // 2)
    assert ours.assignments()[0].generation == 0
    assert [event.reason for event in ours.reported(WarmJoinEvent)] == [f"{PARTITIONS // 2} tasks are warm"]
    worker.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_committed()
    worker.worker.drain()
    worker.until_event(ClosedEvent)
    (left,) = worker.reported(WarmLeaveEvent)
    assert (len(left.warm), left.cold) == (PARTITIONS // 2, ()), "the loop has reported its positions"
    ours.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_committed()
    again = app.start(3, acceptable_recovery_lag=0, **STREAMS)
    again.until_running(PARTITIONS // 2)
    ours.until_running(PARTITIONS // 2)
    ours.member.drain()
    ours.until(lambda: Drained() in ours.asked)
    again.until_running(PARTITIONS)
    (left,) = ours.reported(WarmLeaveEvent)
    assert (len(left.warm), left.cold) == (PARTITIONS // 2, ())
    assert {event.restored for event in again.reported(RunningEvent)} == {0}
    app.send(WORDS)
    app.until_counted()
    assert not [event for event in ours.asked if isinstance(event, CommitDue | Lost)]


def test_a_fenced_member_drops_its_tasks_before_it_joins_again(app: App) -> None:
    at = {TopicPartition(app.name, 0): 1}
    with member_of(app, 1) as member, streams_coordinator(app.broker, {}, PATIENCE_S) as coordinator:
        let_go_until_active(member, PARTITIONS)
        member.let_go()
        mine = member._membership.transaction_member().member_id
        coordinator.heartbeat(StreamsHeartbeatRequest(app.name, mine, LEAVE_EPOCH))
        lost = next_event(member)
        assert isinstance(lost, Lost)
        with pytest.raises(CommitRefused):
            member.commit(at, PATIENCE_S)
        assert member.lease_left_s() == 0
        group = coordinator.describe(app.name, PATIENCE_S)
        assert group is not None
        assert group.members == (), "it waits for the program"
        again = let_go_until_active(member, PARTITIONS)
        assert again.revoked == frozenset()
        member.let_go()
        member.commit(at, PATIENCE_S)


def test_a_member_with_a_directory_restarts_without_moving_a_task(app: App, ends: ExitStack, tmp_path: Path) -> None:
    app.send(WORDS)
    first = loop(app, 1, ends, tmp_path / "first")
    first.until_running(PARTITIONS)
    app.until_committed()
    second = loop(app, 2, ends, tmp_path / "second")
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    with pytest.raises(StateDirectoryLocked, match="give this one another member_dir"):
        loop(app, 3, ends, tmp_path / "second")
    before, seen = second.assignments()[-1].active, len(first.assignments())
    second.member.announce_restart()
    second.until(lambda: Drained() in second.asked)
    second.stop()
    assert [event.awaited for event in second.reported(RestartAnnouncedEvent)] == [True]
    back = loop(app, 2, ends, tmp_path / "second")
    back.until_running(PARTITIONS // 2)
    assert back.assignments()[-1].active == before
    assert [event.reason for event in back.reported(WarmJoinEvent)] == ["the group still has this member"]
    app.send(WORDS)
    app.until_counted()
    assert len(first.assignments()) == seen


def test_a_restart_without_a_directory_is_a_leave(app: App, ends: ExitStack) -> None:
    first = loop(app, 1, ends)
    first.until_running(PARTITIONS)
    first.member.announce_restart()
    first.until(lambda: Drained() in first.asked)
    first.stop()
    assert [event.awaited for event in first.reported(RestartAnnouncedEvent)] == [False]
    second = loop(app, 1, ends)
    second.until_running(PARTITIONS)
    assert [event.reason for event in second.reported(WarmJoinEvent)] == ["the group has no members"]


def test_all_members_end_if_one_asks_for_it_and_may_commit_before(app: App) -> None:
    at = TopicPartition(app.name, 0)
    with member_of(app, 1) as member:
        let_go_until_active(member, PARTITIONS)
        member.let_go()
        member.shut_application_down()
        with pytest.raises(ShutdownRequested):
            next_event(member)
        ends_s = lease_end_s(member)
        until(lambda: lease_end_s(member), lambda later_s: later_s > ends_s + 2 * HEARTBEAT_MS / 1000)
        member.commit({at: 7}, PATIENCE_S)
        assert member.committed([at], PATIENCE_S) == {at: 7}


def test_a_loop_takes_tasks_of_a_java_member_and_gives_them_back(mixed: Mixed, ends: ExitStack) -> None:  # noqa: F811
    set_group(mixed.broker, mixed.name, heartbeat_interval_ms=500)
    java = mixed.java(group_protocol="streams")
    java.until_tasks(active=PARTITIONS)
    mixed.count_more()
    ours = OwnLoop(
        settings_of(mixed.name, mixed.broker, acceptable_recovery_lag=0),
        mixed.topic,
        f"totals-{mixed.topic}",
        7,
        read=lambda value: int(LONG.unpack(value)[0]),
        write=LONG.pack,
    )
    ends.callback(ours.stop)
    ours.until_running(PARTITIONS // 2)
    java.until_tasks(active=PARTITIONS // 2)
    assert [event.reason for event in ours.reported(WarmJoinEvent)] == [f"{PARTITIONS // 2} tasks are warm"]
    mixed.count_more()
    ours.stop()
    java.until_tasks(active=PARTITIONS)
    mixed.count_more()
    assert len(ours.reported(JoiningEvent)) == 1
