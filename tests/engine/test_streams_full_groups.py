"""A group with as many members as it may have (``group.streams.max.size``), and a join of one of them.

Kafka 4.3.1 refuses it: it counts the members before it looks whether this one is among them. So a member that is
refused leaves, and joins again: the group then has room for it, if it was a member.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.engine import streams_events as events
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.member import CloseAsked, MembershipLost
from kstreams_assign.wire import StreamsHeartbeatRequest
from tests.engine.test_streams_membership import PROFILE, Member, answer, refusal

FULL, UNKNOWN_MEMBER_ID, NOT_COORDINATOR = 81, 25, 16
LEAVE = events.SendLeave(StreamsHeartbeatRequest("app", "me", -1))


def refused(member: Member) -> list[events.Effect]:
    """Have the next join refused."""
    assert member.beat().member_epoch == 0
    return member.handle(refusal(FULL))


def test_a_member_that_the_group_has_already_gives_its_place_up_and_has_it_again() -> None:
    member = Member()
    for _ in range(2):
        assert refused(member) == [LEAVE]
        member.handle(events.LeaveAnswered(0))
        join = member.beat()
        assert (join.member_epoch, join.topology) == (0, PROFILE.topology), "it reports everything again"
        member.handle(answer(3))
        member.handle(MembershipLost("a commit came too late"))
        member.handle(events.TasksDropped())


@pytest.mark.parametrize("instance_id", [None, "one"])
@pytest.mark.parametrize("left", [0, UNKNOWN_MEMBER_ID])
def test_a_group_that_is_full_of_others_is_an_error(left: int, instance_id: str | None) -> None:
    member = Member(replace(PROFILE, instance_id=instance_id))
    (leave,) = refused(member)
    assert leave == events.SendLeave(replace(LEAVE.request, instance_id=instance_id))
    member.handle(events.LeaveAnswered(left))
    (end,) = refused(member)
    assert isinstance(end, events.EndMembership)
    assert type(end.cause) is ConfigError
    assert "raise group.streams.max.size of the brokers" in str(end.cause)
    assert member.machine.due_ms() is None


def test_a_leave_that_reached_no_coordinator_is_sent_again() -> None:
    member = Member()
    for _ in range(3):
        assert refused(member) == [LEAVE]
        member.handle(events.LeaveAnswered(NOT_COORDINATOR))
    assert refused(member) == [LEAVE]
    member.handle(events.LeaveAnswered(0))
    member.beat()
    assert member.handle(answer(3)) == []


def test_a_member_that_closes_meanwhile_does_not_join_again() -> None:
    member = Member()
    assert refused(member) == [LEAVE]
    member.handle(CloseAsked())
    assert member.machine.due_ms() is None
