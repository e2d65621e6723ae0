"""A leader among members that send arbitrary bytes: it never raises, and every member gets a readable answer."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.awaiting import read_restarts
from kstreams_assign.group.dialects import APACHE, DIALECTS, Dialect, MemberReport
from kstreams_assign.group.joining import read_member_or_damage
from kstreams_assign.group.leader import decide
from kstreams_assign.group.size import joined_bytes
from kstreams_assign.group.values import Decision, ErrorCode, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import AwaitedProcess, ConsumerSubscription, MemberTrailer, encode_consumer_subscription
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
    assert {host.host for host in hosts} <= {"pod-1", "pod-2", "pod", ""}
    assert {host.port for host in hosts} <= {80, 0, 99_999}


@each_dialect
@pytest.mark.parametrize(
    ("endpoint", "java_reads"),
    [
        ("[2001:db8::7]:8080", HostInfo("2001:db8::7", 8080)),
        ("2001:db8::7:8080", HostInfo("2001:db8::7", 8080)),
        ("http://pod:8080", HostInfo("pod", 8080)),
        ("http://[::1]:08080", HostInfo("::1", 8080)),
        (":80", HostInfo("", 80)),
        ("pod:99999", HostInfo("pod", 99_999)),
    ],
)
def test_a_java_member_finds_itself_in_the_host_map(dialect: Dialect, endpoint: str, java_reads: HostInfo) -> None:
    """It looks for what ``Utils.getHost`` and ``getPort`` return, and joins again at once if that is missing."""
    _, _, decision = decided(dialect, metadata(dialect, user_end_point=endpoint))
    answer = dialect.read_assignment(decision.assignments[HOSTILE].user_data)
    assert java_reads in answer.partitions_by_host
    assert len(answer.partitions_by_host) == 3


MIXED = {TaskId(7, 0): 5, TaskId(7, 0, "x"): 5}
"""A task without and one with a named topology: their tuples cannot be compared."""


def test_tasks_with_and_without_a_named_topology_are_listed_in_a_warning() -> None:
    _, _, decision = decided(APACHE, metadata(APACHE, task_offset_sums=MIXED))
    assert [text for text in decision.warnings if "has state of the tasks 7_0, x__7_0" in text]


def test_loads_of_tasks_with_and_without_a_named_topology_are_ignored() -> None:
    config = AssignConfig(balance_by="input_rate")
    little = LittleGroup(shape(), {"orders": 6}, config, "least_movement")
    members = [little.add(1), little.add(2)]
    for member in members:
        member.balance_by, member.loads = "input_rate", {TaskId(0, 0): 900}
    little.settle()
    trailer = MemberTrailer({"least_movement": 2}, balance_by="input_rate", loads=MIXED)
    third = read_member_or_damage(HOSTILE, metadata(APACHE, trailer=trailer), None)
    view = read_group([*(member.joins(APACHE) for member in members), third])
    assert MIXED in view.reported_loads
    decision = decide(view, _question(little))
    assert decision.standing is not None
    assert decision.standing.cluster.loads == {TaskId(0, 0): 900}


def test_reports_of_awaited_tasks_with_and_without_a_named_topology_are_compared() -> None:
    little = LittleGroup(shape(), {"orders": 6}, assignor="least_movement")
    members = [little.add(1), little.add(2)]
    little.settle()
    absent, plain, named = UUID(int=9), TaskId(7, 0), TaskId(7, 0, "x")
    reports = [AwaitedProcess(5, (plain, named), (named,)), AwaitedProcess(5, (named, plain), (plain, named))]
    joined = [
        read_member_or_damage(
            f"{HOSTILE}-{number}",
            metadata(
                APACHE,
                process_id=UUID(int=70 + number),
                trailer=MemberTrailer({"least_movement": 1}, awaited={absent: report}, generation=1_000),
            ),
            None,
        )
        for number, report in enumerate(reports)
    ]
    view = read_group([*(member.joins(APACHE) for member in members), *joined])
    assert read_restarts(view, 60_000).away == {absent: AwaitedProcess(5, (plain, named), (named,))}
    decide(view, replace(_question(little), config=AssignConfig(scheduled_rebalance_max_delay_ms=60_000)))
