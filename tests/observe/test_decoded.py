"""A snapshot's bytes as values, under any leader and with unreadable members."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.errors import NotAStreamsGroup
from kstreams_assign.group.dialects import KIP441
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.topology import inferred_topology
from kstreams_assign.wire import (
    AssignmentInfo,
    ConsumerAssignment,
    encode_assignment,
    encode_consumer_assignment,
)
from tests.observe.seen_group import scaled_out, settled

FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_every_process_has_its_assignment_and_its_report():
    group = scaled_out()
    first, second = group.decoded().processes
    assert (first.process_id, first.active, first.copies) == (FIRST, group.members[FIRST].running, frozenset())
    assert set(first.offset_sums.values()) == {RUNNING_OFFSET_SUM}
    assert second.active == frozenset()
    assert second.warmup == group.members[SECOND].adopted.warmup
    assert second.standby == frozenset()
    assert first.ours
    assert first.report.version == 11


def test_a_java_leader_does_not_report_warm_ups_apart_from_standbys():
    ours, javas = scaled_out().decoded(), scaled_out(ours=False).decoded()
    assert javas.trailer is None
    assert [process.warmup for process in javas.processes] == [None, None]
    assert javas.processes[1].standby == ours.processes[1].warmup
    assert not javas.processes[0].ours


def test_the_earliest_requested_rebalance_counts():
    group = scaled_out()
    assert group.decoded().next_rebalance_ms == group.now_ms + 600_000
    assert settled(members=3).decoded().next_rebalance_ms is None
    group.catch_up()
    assert group.rebalance().withheld
    assert group.decoded().next_rebalance_ms == 0
    assert set(group.decoded().promised.values()) == {SECOND}


@pytest.mark.parametrize("ours", [True, False])
def test_the_words_of_the_kip_are_read_too(ours):
    group = scaled_out(ours=ours)
    group.dialect = KIP441
    group.rebalance()
    decoded = group.decoded()
    assert decoded.dialect is KIP441
    assert decoded.owners == group.owners()


def damaged(part, data):
    snapshot = scaled_out().snapshot()
    first, *others = snapshot.members
    return decode_group(replace(snapshot, members=(replace(first, **{part: data}), *others)))


@pytest.mark.parametrize(
    ("part", "data", "said"),
    [
        ("subscription", b"\xff", "subscription: "),
        ("subscription", bytes.fromhex("0000 00000000 00000004 0000006300000000"), "subscription: "),
        ("assignment", b"", "assignment: "),
        ("assignment", bytes.fromhex("0000 00000000 00000001 07"), "assignment: "),
    ],
)
def test_a_member_that_cannot_be_read_is_named_and_the_others_stay(part, data, said):
    decoded = damaged(part, data)
    (why,) = decoded.unreadable["member-1"]
    assert why.startswith(said)
    assert decoded.processes[-1].process_id == SECOND
    assert decoded.processes[-1].copies == scaled_out().decoded().processes[-1].copies


@pytest.mark.parametrize("subtopology", [-1, 10_000, 2**31 - 1])
@pytest.mark.parametrize("is_active", [True, False])
def test_a_subtopology_that_no_topology_has_makes_its_member_unreadable(is_active, subtopology):
    """A damaged number would otherwise make a topology with two thousand million subtopologies."""
    task, partition = TaskId(subtopology, 0), TopicPartition("orders", 0)
    roles = {"active_tasks": (task,)} if is_active else {"standby_tasks": {task: (partition,)}}
    user_data = encode_assignment(AssignmentInfo(11, 11, **roles))
    answer = encode_consumer_assignment(ConsumerAssignment(1, (partition,) if is_active else (), user_data))
    decoded = damaged("assignment", answer)
    why = f"assignment: task {task}: a subtopology's number must be 0 to 9,999"
    assert decoded.unreadable == {"member-1": (why,)}
    assert len(inferred_topology(decoded).shape.subtopologies) == 1


def test_tasks_with_and_without_a_topology_make_their_member_unreadable():
    tasks = {TaskId(0, 0): (TopicPartition("orders", 0),), TaskId(0, 0, "t"): (TopicPartition("orders", 0),)}
    user_data = encode_assignment(AssignmentInfo(11, 11, standby_tasks=tasks))
    decoded = damaged("assignment", encode_consumer_assignment(ConsumerAssignment(1, (), user_data)))
    assert decoded.unreadable == {
        "member-1": ("assignment: some tasks have the name of a topology, and others do not",)
    }


def test_an_error_code_is_reported_without_tasks():
    info = AssignmentInfo(11, 11, error_code=ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA)
    answer = encode_consumer_assignment(ConsumerAssignment(1, (), encode_assignment(info)))
    decoded = damaged("assignment", answer)
    assert decoded.errors == {"member-1": ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA}
    assert decoded.processes[0].active == frozenset()
    assert decoded.unreadable == {}


def test_a_plain_consumer_group_is_refused_by_its_kind():
    snapshot = replace(settled().snapshot(), protocol="range")
    with pytest.raises(NotAStreamsGroup, match="plain consumer group: it assigns by 'range'"):
        decode_group(snapshot)
    with pytest.raises(NotAStreamsGroup, match="of the type 'connect'"):
        decode_group(replace(snapshot, protocol_type="connect", protocol="sessioned"))


def test_an_empty_group_has_no_processes():
    decoded = decode_group(replace(settled().snapshot(), state="Empty", protocol="", members=()))
    assert decoded.processes == ()
    assert decoded.owners == {}


def test_tasks_that_one_process_runs_in_two_threads_are_its_own():
    snapshot = scaled_out().snapshot()
    first, second = snapshot.members
    twin = replace(second, subscription=first.subscription)
    decoded = decode_group(replace(snapshot, members=(first, twin)))
    (process,) = decoded.processes
    assert [member.member_id for member in process.members] == ["member-1", "member-2"]
    assert process.active == {TaskId(0, n) for n in range(6)}
