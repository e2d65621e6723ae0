"""The lease counts from when an answered request was sent, not from when its answer was read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat

from kstreams_assign.adapters.clock import suspended_s
from kstreams_assign.adapters.kafka_python.lease import Lease

SESSION_S = 6.0


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
        return response

    return SimpleNamespace(heartbeat=Heartbeat(), _process_sync_group_response=process)


@pytest.fixture
def lease(coordinator) -> Lease:
    return Lease(coordinator, SESSION_S)


def test_there_is_none_before_the_group_answered(lease, coordinator):
    assert lease.left_s() == 0
    coordinator.heartbeat.reset_timeouts()  # as it does when it has found the coordinator
    assert lease.left_s() == 0


def test_an_answer_that_lay_in_the_socket_while_the_process_slept_renews_nothing(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    now.s += SESSION_S + 1
    coordinator.heartbeat.received_heartbeat()
    assert lease.left_s() == -1


def test_sync_group_counts_from_its_sending_and_a_refused_one_does_not(lease, coordinator, now):
    with pytest.raises(Refused):
        coordinator._process_sync_group_response(b"no", now.s)
    assert lease.left_s() == 0
    assert coordinator._process_sync_group_response(b"tasks", now.s - 2) == b"tasks"
    assert lease.left_s() == SESSION_S - 2


def test_the_newest_counts(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    coordinator.heartbeat.received_heartbeat()
    coordinator._process_sync_group_response(b"tasks", now.s - 3)
    assert lease.left_s() == SESSION_S


def test_a_suspended_machine_uses_up_its_lease_although_its_clock_stood_still(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    coordinator.heartbeat.received_heartbeat()
    now.s += 1
    now.suspended_s += SESSION_S
    assert lease.left_s() == -1


def test_an_answer_that_lay_in_the_socket_while_the_machine_was_suspended_renews_nothing(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    now.suspended_s += 100
    coordinator.heartbeat.received_heartbeat()
    assert lease.left_s() == SESSION_S - 100


def test_after_a_suspension_the_next_answered_heartbeat_counts_in_full(lease, coordinator, now):
    coordinator.heartbeat.sent_heartbeat()
    now.suspended_s += 100
    now.s += 1
    coordinator.heartbeat.sent_heartbeat()
    coordinator.heartbeat.received_heartbeat()
    assert lease.left_s() == SESSION_S


def test_a_sync_group_of_which_it_is_not_known_whether_it_left_before_the_suspension_is_taken_for_older(
    lease, coordinator, now
):
    coordinator._process_sync_group_response(b"tasks", now.s)
    now.suspended_s += 2
    now.s += 1
    coordinator._process_sync_group_response(b"tasks", now.s)
    assert lease.left_s() == SESSION_S - 2


def test_this_machine_tells_its_suspensions():
    assert suspended_s() >= -0.01


def test_kafka_python_still_calls_what_is_watched():
    assert callable(BaseCoordinator._process_sync_group_response)
    assert callable(Heartbeat.received_heartbeat)
    assert callable(Heartbeat.sent_heartbeat)
