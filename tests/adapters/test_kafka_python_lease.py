"""The lease counts from when an answered request was sent, not from when its answer was read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.errors import RebalanceInProgressError

from kstreams_assign.adapters.clock import suspended_s
from kstreams_assign.adapters.kafka_python.lease import WatchedLease

SESSION_S, REBALANCE_S = 6.0, 60.0


class Refused(Exception):
    """What a coordinator raises for an error code."""


@pytest.fixture
def now(monkeypatch) -> Iterator[SimpleNamespace]:
    """Time that the test moves, for kafka-python and for us."""
    clock = SimpleNamespace(s=1_000.0, suspended_s=70.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.s)
    monkeypatch.setattr(time, "clock_gettime", lambda _: clock.s + clock.suspended_s)
    return clock


@pytest.fixture
def coordinator(now) -> SimpleNamespace:  # noqa: ARG001  # time stands before a heartbeat is made
    def process(response: bytes, send_time: float) -> bytes:  # noqa: ARG001  # kafka-python's signature
        if response == b"no":
            raise Refused
        if response == b"rebalance":
            raise RebalanceInProgressError
        return response

    return SimpleNamespace(
        heartbeat=Heartbeat(), _process_sync_group_response=process, _handle_heartbeat_response=process
    )


@pytest.fixture
def lease(coordinator) -> WatchedLease:
    return WatchedLease(coordinator, SESSION_S, REBALANCE_S)


def beat(coordinator, now, *, answer=b"ok", after_s=0.0):
    """Send a heartbeat and handle its answer, as ``BaseCoordinator._do_heartbeat`` does."""
    coordinator.heartbeat.sent_heartbeat()
    sent_s = now.s
    now.s += after_s
    with suppress(RebalanceInProgressError, Refused):
        coordinator._handle_heartbeat_response(answer, sent_s)


def test_there_is_none_before_the_group_answered(lease, coordinator):
    assert lease.left_s() == 0
    coordinator.heartbeat.reset_timeouts()  # as it does when it has found the coordinator
    assert lease.left_s() == 0


def test_an_answer_that_lay_in_the_socket_while_the_process_slept_renews_nothing(lease, coordinator, now):
    beat(coordinator, now, after_s=SESSION_S + 1)
    assert lease.left_s() == -1


def test_sync_group_counts_from_its_sending_and_a_refused_one_does_not(lease, coordinator, now):
    with pytest.raises(Refused):
        coordinator._process_sync_group_response(b"no", now.s)
    assert lease.left_s() == 0
    assert coordinator._process_sync_group_response(b"tasks", now.s - 2) == b"tasks"
    assert lease.left_s() == SESSION_S - 2


def test_the_newest_counts(lease, coordinator, now):
    beat(coordinator, now)
    coordinator._process_sync_group_response(b"tasks", now.s - 3)
    assert lease.left_s() == SESSION_S


def test_a_suspended_machine_uses_up_its_lease_although_its_clock_stood_still(lease, coordinator, now):
    beat(coordinator, now)
    now.s += 1
    now.suspended_s += SESSION_S
    assert lease.left_s() == -1


def test_an_answer_that_lay_in_the_socket_while_the_machine_was_suspended_renews_nothing(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    sent_s = now.s
    now.suspended_s += 100
    coordinator._handle_heartbeat_response(b"ok", sent_s)
    assert lease.left_s() == SESSION_S - 100


def test_after_a_suspension_the_next_answered_heartbeat_counts_in_full(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    now.suspended_s += 100
    now.s += 1
    beat(coordinator, now)
    assert lease.left_s() == SESSION_S


def test_a_sync_group_of_which_it_is_not_known_whether_it_left_before_the_suspension_is_taken_for_older(
    lease, coordinator, now
):
    coordinator._process_sync_group_response(b"tasks", now.s)
    now.suspended_s += 2
    now.s += 1
    coordinator._process_sync_group_response(b"tasks", now.s)
    assert lease.left_s() == SESSION_S - 2


def test_heartbeats_during_a_rebalance_renew_the_session_and_not_the_time_to_join(coordinator, now):
    lease = WatchedLease(coordinator, SESSION_S, 10.0)
    beat(coordinator, now)
    for _ in range(4):
        now.s += 2
        beat(coordinator, now, answer=b"rebalance")
    assert lease.left_s() == 2
    now.s += 3
    beat(coordinator, now, answer=b"rebalance")
    assert lease.left_s() == -1
    coordinator._process_sync_group_response(b"tasks", now.s)
    assert lease.left_s() == SESSION_S


def test_a_member_that_slept_through_a_rebalance_has_no_lease_although_its_session_lasts(coordinator, now):
    lease = WatchedLease(coordinator, 45.0, 10.0)
    beat(coordinator, now)
    now.s += 31
    assert lease.left_s() == -21
    beat(coordinator, now, answer=b"rebalance")
    assert lease.left_s() == -21


def test_a_suspension_uses_up_the_time_to_join_too(coordinator, now):
    lease = WatchedLease(coordinator, 45.0, 10.0)
    beat(coordinator, now)
    now.suspended_s += 30
    assert lease.left_s() == -20


def test_a_refused_heartbeat_renews_nothing(lease, coordinator, now):
    beat(coordinator, now)
    now.s += 1
    beat(coordinator, now, answer=b"no")
    assert lease.left_s() == SESSION_S - 1


def test_this_machine_tells_its_suspensions():
    assert suspended_s() >= -0.01


def test_kafka_python_still_calls_what_is_watched():
    assert callable(BaseCoordinator._process_sync_group_response)
    assert callable(BaseCoordinator._handle_heartbeat_response)
    assert callable(Heartbeat.sent_heartbeat)
