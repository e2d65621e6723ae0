"""A member or a leader whose bytes of the consumer protocol are damaged, on a real broker."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from uuid import UUID

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import remove_members
from kstreams_assign.errors import MalformedUserData
from kstreams_assign.events import AssignedEvent, BrokerUnavailableEvent, DecisionEvent, LostEvent
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.model import Store, SubtopologyShape
from kstreams_assign.wire import ConsumerSubscription, decode_assignment, encode_consumer_subscription
from kstreams_assign.worker.group_member import Assignment, CommitDue, GroupMember
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, until
from tests.worker.malformed import COORDINATOR_FAILS, HUGE, NO_UTF8, raw_member, subscriptions

WORDS = [b"word-%d" % (n % 97) for n in range(500)]


def read_by_the_coordinator(topic: str) -> Mapping[str, bytes]:
    return {kind: metadata for kind, metadata in subscriptions(topic).items() if kind not in COORDINATOR_FAILS}


def _warned(worker: Running, member_id: str) -> bool:
    warnings = [warning for decision in worker.reported(DecisionEvent) for warning in decision.warnings]
    return any(
        f"member {member_id} gets an error and no tasks: ConsumerProtocolSubscription" in warning
        for warning in warnings
    )


def test_a_leader_survives_members_whose_subscription_is_damaged(app: App) -> None:
    app.send(WORDS)
    leader = app.start(1)
    leader.until_running(PARTITIONS)
    for kind, metadata in read_by_the_coordinator(app.name).items():
        with raw_member(app.broker, app.name, app.name, metadata) as member:
            until(lambda member=member: bool(member.poll() or member.user_data or leader.error))
            assert leader.error is None, (kind, leader.error)
            assert decode_assignment(member.user_data or b"").error_code == ErrorCode.ASSIGNMENT_ERROR, kind
            leader.until(lambda _, name=member.member_id: _warned(leader, name))
    leader.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted()
    assert not [task for decision in leader.reported(DecisionEvent)[1:] for task in decision.changed]
    assert not leader.reported(LostEvent)


@pytest.mark.parametrize("kind", sorted(COORDINATOR_FAILS))
def test_a_failing_coordinator_is_outlived(app: App, kind: str) -> None:
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    damaged = subscriptions(app.name)[kind]
    # its LeaveGroup waits behind a JoinGroup that is never answered
    with raw_member(app.broker, app.name, app.name, damaged, request_timeout_ms=6_000) as member:
        until(lambda: bool(member.poll() or worker.reported(BrokerUnavailableEvent) or worker.error))
        assert worker.error is None
        assert "the group's coordinator failed" in worker.reported(BrokerUnavailableEvent)[0].reason
        generations = len(worker.reported(AssignedEvent))
        assert remove_members(app.broker, {}, app.name, [(member.member_id, None)], "damaged", PATIENCE_S)
        worker.until(lambda _: len(worker.reported(AssignedEvent)) > generations)
    worker.until_running(PARTITIONS)
    assert not worker.reported(LostEvent)


def test_a_group_member_that_leads_survives_them(broker: str) -> None:
    topic = "damaged-subscriptions-group-member"
    ClusterAdmin(broker).create_topics({topic: PARTITIONS}, PATIENCE_S)
    config = Config(application_id=topic, bootstrap_servers=broker, session_timeout_ms=30_000)
    shape = [SubtopologyShape((topic,), (Store("totals"),))]
    active: list[int] = []

    def answer(member: GroupMember) -> None:
        event = member.poll(0.05)
        if isinstance(event, CommitDue):
            member.ready_to_join()
        elif isinstance(event, Assignment):
            member.let_go()
            active.append(len(event.active))

    with GroupMember(config, shape, UUID(int=7)) as leader:
        until(lambda: bool(answer(leader) or active == [PARTITIONS]))
        for metadata in read_by_the_coordinator(topic).values():
            with raw_member(broker, topic, topic, metadata) as member:
                until(lambda member=member: bool(member.poll() or answer(leader) or member.user_data))
                assert decode_assignment(member.user_data or b"").error_code == ErrorCode.ASSIGNMENT_ERROR
    assert set(active) == {PARTITIONS}


def _assignment(topic: bytes, count: bytes = b"\0\0\0\1\0\0\0\0") -> bytes:
    return struct.pack(">hih", 1, 1, len(topic)) + topic + count + b"\xff\xff\xff\xff"


ASSIGNMENTS = {
    "one byte": b"\0",
    "a topic that is no UTF-8": _assignment(NO_UTF8),
    "more partitions than bytes": _assignment(b"t", HUGE),
    "user-data longer than the bytes": struct.pack(">hi", 1, 0) + HUGE,
    "a negative version": b"\xff\xff" + _assignment(b"t")[2:],
}


@pytest.mark.parametrize("kind", ASSIGNMENTS)
def test_a_damaged_assignment_is_named(app: App, kind: str) -> None:
    good = encode_consumer_subscription(ConsumerSubscription(1, (app.name,)))
    with raw_member(app.broker, app.name, app.name, good, ASSIGNMENTS[kind]) as leader:
        until(lambda: bool(leader.poll() or leader.user_data is not None))
        follower = app.start(1)
        until(lambda: bool(leader.poll() or follower.error))
    assert isinstance(follower.error, MalformedUserData), follower.error
    assert str(follower.error).startswith("ConsumerProtocolAssignment")
