"""A leader among members that send arbitrary bytes: it never raises, and every member gets a readable answer."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.group.dialects import DIALECTS, Dialect, MemberReport
from kstreams_assign.group.joining import read_member_or_damage
from kstreams_assign.group.leader import decide
from kstreams_assign.group.size import joined_bytes
from kstreams_assign.group.values import Decision, ErrorCode, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.wire import ConsumerSubscription, MemberTrailer, encode_consumer_subscription
from tests.group.little_group import LittleGroup, shape
from tests.group.test_leader import _question
from tests.wire.strategies import unhurried
from tests.worker.malformed import subscriptions

each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
HOSTILE = "hostile"


def metadata(dialect: Dialect, **fields: object) -> bytes:
    report = MemberReport(
        version=dialect.latest_version,
        latest_supported_version=dialect.latest_version,
        process_id=UUID(int=77),
        user_end_point="pod-7:8080",
        task_offset_sums={TaskId(0, 1): 40, TaskId(0, 5): -2},
        task_lags={TaskId(0, 1): 40} if dialect.tells_lags else None,
        client_tags={} if dialect.tells_lags else {"zone": "a"},
        trailer=MemberTrailer({"least_movement": 1}),
    )
    user_data = dialect.write_report(replace(report, **fields))
    owned = (TopicPartition("orders", 1), TopicPartition("orders", 2))
    return encode_consumer_subscription(ConsumerSubscription(3, ("orders",), user_data, owned, 4, "rack"))


def decided(dialect: Dialect, hostile: bytes) -> tuple[LittleGroup, JoinedMember, Decision]:
    """Let a settled group of two decide again, with a third member that sent these bytes."""
    little = LittleGroup(shape(), {"orders": 6}, dialect=dialect)
    members = [little.add(1, endpoint="pod-1:80"), little.add(2, endpoint="pod-2:80")]
    little.settle()
    third = read_member_or_damage(HOSTILE, hostile, None)
    joined = [*(member.joins(dialect) for member in members), third]
    decision = decide(read_group(joined, dialect), _question(little))
    assert decision.assignments.keys() == {member.member_id for member in joined}
    for answer in decision.assignments.values():
        dialect.read_assignment(answer.user_data)
    return little, third, decision


@each_dialect
@pytest.mark.parametrize("kind", subscriptions("orders"))
def test_a_damaged_subscription_is_one_error_and_the_others_keep_their_tasks(dialect: Dialect, kind: str) -> None:
    little, third, decision = decided(dialect, subscriptions("orders")[kind])
    assert third.damage is not None
    assert third.damage.startswith("ConsumerProtocolSubscription")
    assert dialect.read_assignment(decision.assignments[HOSTILE].user_data).error_code == ErrorCode.ASSIGNMENT_ERROR
    assert f"member {HOSTILE} gets an error and no tasks: {third.damage}" in decision.warnings
    for member in little.members.values():
        assert set(decision.assignments[member.name].partitions) == set(member.owned)
    assert not decision.changed
    assert joined_bytes([third]) >= len(third.user_data)


@each_dialect
@given(data=st.data())
@unhurried
def test_a_subscription_with_flipped_bytes_never_stops_the_leader(dialect: Dialect, data: st.DataObject) -> None:
    blob = bytearray(metadata(dialect))
    for _ in range(data.draw(st.integers(0, 5))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    decided(dialect, bytes(blob[: data.draw(st.integers(0, len(blob)))] + data.draw(st.binary(max_size=8))))


ENDPOINTS = (":", ":80", "pod:", "pod:0", "pod:99999", f"pod:{2**31}", "pod:" + "9" * 5000, "p" * 40_000 + ":80", "é:٣")


@each_dialect
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda text: text[:12])
def test_an_endpoint_that_cannot_be_handed_on_is_left_out(dialect: Dialect, endpoint: str) -> None:
    _, third, decision = decided(dialect, metadata(dialect, user_end_point=endpoint))
    assert third.damage is None
    hosts = dialect.read_assignment(decision.assignments["member-1"].user_data).partitions_by_host
    assert {host.host for host in hosts} <= {"pod-1", "pod-2", "pod"}
    assert {host.port for host in hosts} <= {80, 0}
