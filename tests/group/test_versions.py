"""Version probing: a group uses the newest version that all its members support, and no member loses a task by it."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from kstreams_assign.errors import AssignmentRefused
from kstreams_assign.group.values import ErrorCode, JoinedMember
from kstreams_assign.group.versions import version_after
from kstreams_assign.group.view import FUTURE_PROCESS, read_group
from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    AssignmentInfo,
    GroupTrailer,
    SubscriptionInfo,
    decode_assignment,
    encode_subscription,
)
from tests.group.little_group import LittleGroup, LittleMember, shape

NEWEST = 11


@pytest.mark.parametrize(
    ("used", "received", "common", "next_"),
    [
        (11, 11, 11, 11),  # all members use the newest
        (11, 5, 5, 5),  # the leader, or another member, runs 2.4
        (11, 5, 11, 11),  # a member still uses 5, and all support 11: only that member has to change
        (5, 5, 5, 5),  # downgraded, and it stays so
        (5, 5, 8, 8),  # the last member of 2.4 has left, a member of 2.6 has not
        (5, 5, 11, 11),
        (8, 5, 8, 8),  # a member comes from an older version
    ],
)
def test_a_follower_uses_the_version_that_all_members_support(
    used: int, received: int, common: int, next_: int
) -> None:
    assert version_after(used, NEWEST, AssignmentInfo(received, common)) == next_


@pytest.mark.parametrize(("used", "received", "common"), [(5, 8, 8), (11, 11, 12), (8, 8, 12)])
def test_versions_that_no_leader_may_answer_with_are_refused(used: int, received: int, common: int) -> None:
    with pytest.raises(
        AssignmentRefused, match=f"version {received} .* version {common}, .* version {used} .* {NEWEST}"
    ):
        version_after(used, NEWEST, AssignmentInfo(received, common))


@pytest.mark.parametrize("old", [AssignmentInfo(4, 4), AssignmentInfo(2, -1)])
def test_a_leader_that_may_be_of_a_release_before_cooperative_rebalances_is_refused(old: AssignmentInfo) -> None:
    with pytest.raises(AssignmentRefused, match=r"before 2\.4 .* eager"):
        version_after(NEWEST, NEWEST, old)


def test_a_python_leader_may_have_eager_members() -> None:
    ours = AssignmentInfo(4, 4, trailer=GroupTrailer("high_availability", 1))
    assert version_after(NEWEST, NEWEST, ours) == 4


def grown(**newest: int) -> tuple[LittleGroup, list[LittleMember]]:
    """Two Python members with all tasks settled, then a member whose release supports at most this version."""
    group = LittleGroup(shape(), {"orders": 6, "clicks": 1})
    ours = [group.add(1), group.add(2)]
    group.settle()
    other = group.add(3)
    other.newest, other.ours = newest["newest"], False
    return group, [*ours, other]


def answered(group: LittleGroup) -> tuple[set[int], set[int]]:
    """Return the versions of a rebalance's answers, and the versions that they call supported by all."""
    decision = group.rebalance()
    infos = [decode_assignment(given.user_data) for given in decision.assignments.values()]
    return {info.version for info in infos}, {info.commonly_supported_version for info in infos}


@pytest.mark.parametrize("newest", [5, 8, 9, 10])
def test_a_group_lowers_its_version_for_an_older_member_and_raises_it_afterwards(newest: int) -> None:
    group, members = grown(newest=newest)
    assert answered(group) == ({newest}, {newest})
    assert {member.used for member in members} == {newest}
    assert answered(group) == ({newest}, {newest})
    group.remove(3)
    assert answered(group) == ({newest}, {NEWEST})
    assert {member.used for member in members[:2]} == {NEWEST}
    assert answered(group) == ({NEWEST}, {NEWEST})


def test_a_newer_member_gets_an_answer_that_it_can_read_and_the_others_keep_their_tasks() -> None:
    group, members = grown(newest=12)
    before = [member.running for member in members[:2]]
    decision = group.rebalance()
    assert decision.assignor == "high_availability"
    assert FUTURE_PROCESS in decision.placements
    assert [warning for warning in decision.warnings if "member-3 speaks version 12, newer than 11" in warning]
    assert [member.running for member in members[:2]] == before
    assert members[2].used == NEWEST
    decision = group.rebalance()
    assert FUTURE_PROCESS not in decision.placements
    assert [member.running for member in members[:2]] == before
    group.settle()
    assert sorted(len(member.running) for member in members) == [2, 2, 2]


@pytest.mark.parametrize(("newest", "probes"), [(5, False), (6, False), (8, True)])
def test_without_reported_positions_no_member_is_asked_to_probe(newest: int, probes: bool) -> None:
    group, members = grown(newest=newest)
    group.rebalance()
    members[2].positions = {}
    decision = group.rebalance()
    assert decision.standing is not None
    assert decision.standing.plan.probing
    assert (decision.next_probe_ms is not None) is probes
    assert [text for text in decision.warnings if "before 2.6 (member-3)" in text] == (
        [] if probes else [decision.warnings[0]]
    )


def test_newer_members_count_as_one_process_and_in_the_supported_version() -> None:
    future = [JoinedMember(name, ("orders",), (), struct.pack(">ii", 13, 14) + b"?") for name in ("b", "c")]
    old = SubscriptionInfo(5, 8, UUID(int=1), task_offset_sums={TaskId(0, 0): -2, TaskId(0, 1): 70})
    view = read_group([*future, JoinedMember("a", ("orders",), (), encode_subscription(old))])
    assert (view.version, view.supported) == (5, 8)
    assert [consumer.member.member_id for consumer in view.processes[FUTURE_PROCESS]] == ["b", "c"]
    assert view.future == {"b": 13, "c": 13}
    assert view.unreadable == {}


def test_newer_members_and_members_before_version_probing_are_refused() -> None:
    group, members = grown(newest=12)
    members[1].used, members[1].newest, members[1].ours = 2, 2, False
    with pytest.raises(AssignmentRefused):
        group.rebalance()
    assert group.decision is not None
    assert group.decision.error is ErrorCode.ASSIGNMENT_ERROR
    assert "member-3" in group.decision.warnings[0]


def test_an_old_subscription_reports_replicas_without_positions() -> None:
    info = SubscriptionInfo(5, NEWEST, UUID(int=1), task_offset_sums={TaskId(0, 0): -2, TaskId(0, 1): 70})
    view = read_group([JoinedMember("a", ("orders",), (), encode_subscription(info))])
    [[consumer]] = view.processes.values()
    assert consumer.info.task_offset_sums == {TaskId(0, 0): -2, TaskId(0, 1): -3}
