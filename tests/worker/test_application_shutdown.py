"""A member asks all others to end while it ends itself: its function raises after that, or it is closed at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kstreams_assign import Assignment, CommitDue, GroupMember, Record, Store, SubtopologyShape, Task
from kstreams_assign.allowed_values import GROUP_PROTOCOLS, GUARANTEES
from kstreams_assign.errors import ShutdownRequested
from kstreams_assign.wire import (
    LATEST_SUPPORTED_VERSION,
    ConsumerSubscription,
    SubscriptionInfo,
    encode_consumer_subscription,
    encode_subscription,
)
from kstreams_assign.worker import membership
from tests.worker.app import PARTITIONS, App, Running, count, until
from tests.worker.malformed import raw_member
from tests.worker.own_loop import settings_of
from tests.worker.streams_settings import set_group

WORDS = [b"word-%d" % (n % 97) for n in range(200)]
HEARTBEAT_MS = 500
in_both = pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)


@contextmanager
def app_on(broker: str, test: str, folder: Path) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]+", "-", test)[-60:].strip("-"), folder)
    set_group(broker, app.name, heartbeat_interval_ms=HEARTBEAT_MS, initial_rebalance_delay_ms=0)
    yield app
    app.stop()


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    with app_on(broker, request.node.name, tmp_path) as app:
        yield app


@pytest.fixture
def newer_app(newer_broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    with app_on(newer_broker, request.node.name, tmp_path) as app:
        yield app


class Poisoned:
    """``count`` until it is armed; then it asks all to end, and fails."""

    def __init__(self) -> None:
        self.ask: Callable[[], None] | None = None

    def __call__(self, task: Task, records: Sequence[Record]) -> None:
        if self.ask is not None:
            self.ask()
            raise RuntimeError("every member would meet this")
        count(task, records)


def start_two(app: App, *, static: bool = False, **settings: Any) -> tuple[list[Running], list[Poisoned]]:
    """Start two workers, one after the other: in a classic group the first one leads."""
    functions, members = [Poisoned(), Poisoned()], list[Running]()
    for number, function in enumerate(functions):
        members.append(app.start(number, function, group_instance_id=f"i-{number}" if static else None, **settings))
        for member in members:
            member.until_running(PARTITIONS // len(members))
    return members, functions


@in_both
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("asking", [0, 1], ids=["the-first", "the-second"])
def test_a_function_that_asks_all_to_end_and_fails(app: App, protocol: str, guarantee: str, asking: int) -> None:
    members, functions = start_two(app, group_protocol=protocol, processing_guarantee=guarantee)
    functions[asking].ask = members[asking].worker.shut_application_down
    app.send(WORDS)
    assert isinstance(members[asking].until_error(), RuntimeError)
    assert isinstance(members[1 - asking].until_error(), ShutdownRequested)


@in_both
@pytest.mark.parametrize("asking", [0, 1], ids=["the-first", "the-second"])
def test_a_worker_that_asks_all_to_end_and_is_closed_at_once(app: App, protocol: str, asking: int) -> None:
    members, _ = start_two(app, group_protocol=protocol)
    app.send(WORDS)
    app.until_counted()
    members[asking].worker.shut_application_down()
    members[asking].worker.close()
    assert isinstance(members[1 - asking].until_error(), ShutdownRequested)
    members[asking].join()
    app.until_committed()


def test_a_worker_that_remains_in_its_streams_group_reports_the_request_all_the_same(app: App) -> None:
    members, functions = start_two(app, group_protocol="streams", group_membership_operation="remain_in_group")
    functions[0].ask = members[0].worker.shut_application_down
    app.send(WORDS)
    assert isinstance(members[0].until_error(), RuntimeError)
    assert isinstance(members[1].until_error(), ShutdownRequested)


@in_both
def test_a_static_member_which_keeps_its_place_as_it_ends(newer_app: App, protocol: str) -> None:
    members, functions = start_two(newer_app, static=True, group_protocol=protocol)
    functions[0].ask = members[0].worker.shut_application_down
    newer_app.send(WORDS)
    assert isinstance(members[0].until_error(), RuntimeError)
    assert isinstance(members[1].until_error(), ShutdownRequested)


@in_both
def test_a_request_before_the_worker_is_connected_is_kept(app: App, protocol: str) -> None:
    running = app.start(1, group_protocol=protocol)
    running.worker.shut_application_down()
    assert isinstance(running.until_error(), ShutdownRequested)


@in_both
def test_a_program_with_its_own_loop_that_asks_all_to_end_and_leaves_at_once(app: App, protocol: str) -> None:
    worker = app.start(1, group_protocol=protocol)
    worker.until_running(PARTITIONS)
    settings = {"group_protocol": protocol, "acceptable_recovery_lag": 100, "warm_join": False}
    config = settings_of(app.name, app.broker, **settings)

    def has_tasks() -> bool:
        event = member.poll(0.05)
        if isinstance(event, CommitDue):
            member.ready_to_join()
        elif isinstance(event, Assignment):
            member.let_go()
        return isinstance(event, Assignment) and bool(event.active)

    with GroupMember(config, [SubtopologyShape((app.name,), (Store("totals"),))], uuid4()) as member:
        until(has_tasks)
        member.shut_application_down()
    assert isinstance(worker.until_error(), ShutdownRequested)


def test_a_worker_does_not_wait_long_for_a_member_that_does_not_join_again(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long_s = membership.SHUTDOWN_ASKED_WITHIN_S
    monkeypatch.setattr(membership, "SHUTDOWN_ASKED_WITHIN_S", 0.5)
    running = app.start(1)
    running.until_running(PARTITIONS)
    user_data = encode_subscription(SubscriptionInfo(LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION, uuid4()))
    subscription = encode_consumer_subscription(ConsumerSubscription(1, (app.name,), user_data))
    with raw_member(app.broker, app.name, app.name, subscription) as silent:
        until(lambda: bool(silent.poll() or silent.user_data is not None))
        running.worker.shut_application_down()
        began_s = time.monotonic()
        running.stop()
        assert 0.5 <= time.monotonic() - began_s < too_long_s
