"""The lease of a member of a streams group ends with its session, or with the time that it has to release tasks."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.engine import streams_events as events
from kstreams_assign.group.member import CloseAsked, DropAll, MembershipLost, TasksReleased
from tests.engine.test_streams_membership import PROFILE, Member, answer

SESSION_MS, REBALANCE_MS = 45_000, 12_000


def joined(*partitions: int) -> Member:
    """A member at epoch 3 that owns these tasks; its newest answered heartbeat was sent at ``now_ms``."""
    member = Member(replace(PROFILE, rebalance_timeout_ms=REBALANCE_MS))
    assert lease_left_ms(member) is None
    member.beat()
    member.handle(answer(3, *partitions))
    member.handle(TasksReleased(1))
    beat(member)
    return member


def beat(member: Member, answered: events.Answered | None = None) -> None:
    """Send the next heartbeat and have it answered; by default it changes nothing."""
    member.beat()
    member.handle(answered or answer(member.machine.epoch, lists=False))


def lease_left_ms(member: Member) -> int | None:
    ends_ms = member.machine.lease_ends_ms(SESSION_MS)
    return None if ends_ms is None else ends_ms - member.now_ms


def test_it_lasts_for_the_shorter_timeout_from_when_the_newest_answered_heartbeat_was_sent() -> None:
    member = joined(0)
    assert lease_left_ms(member) == REBALANCE_MS
    assert member.machine.lease_ends_ms(5_000) == member.now_ms + 5_000
    member.beat()
    member.now_ms += 400
    member.handle(answer(3, lists=False))
    assert lease_left_ms(member) == REBALANCE_MS - 400


def test_a_third_heartbeat_is_due_before_it_ends_however_seldom_the_group_asks_for_them() -> None:
    """Brokers allow an interval of 15 s, and a member a session that is shorter."""
    member = Member(replace(PROFILE, session_timeout_ms=10_000))
    seldom = events.Answered(replace(answer(3, lists=False).response, heartbeat_interval_ms=15_000))
    beat(member, seldom)
    for _ in range(3):
        sent_ms = member.now_ms
        beat(member, seldom)
        assert member.now_ms - sent_ms == 3_333


def test_heartbeats_do_not_prolong_it_while_a_revoked_task_is_not_released() -> None:
    member = joined(0, 1)
    beat(member, answer(3, 0))
    revoked_ms = member.now_ms
    for _ in range(3):
        beat(member)
    assert member.now_ms == revoked_ms + 2 * REBALANCE_MS // 3, "heartbeats come often enough for this lease"
    assert member.machine.lease_ends_ms(SESSION_MS) == revoked_ms + REBALANCE_MS
    member.handle(TasksReleased(2))
    assert lease_left_ms(member) == revoked_ms + REBALANCE_MS - member.now_ms, "the group does not know it"
    beat(member)
    assert lease_left_ms(member) == REBALANCE_MS


def test_a_member_that_slept_after_a_task_was_revoked_has_no_lease_although_its_session_lasts() -> None:
    member = joined(0, 1)
    beat(member, answer(3, 0))
    member.now_ms += 20_000
    assert lease_left_ms(member) == REBALANCE_MS - 20_000


def test_a_task_that_changes_its_role_is_to_be_released() -> None:
    member = joined(0)
    member.beat()
    became_standby = replace(answer(4).response, standby_tasks=answer(4, 0).response.active_tasks)
    member.handle(events.Answered(became_standby))
    revoked_ms = member.now_ms
    beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == revoked_ms + REBALANCE_MS


def test_a_task_that_was_given_and_taken_back_before_it_was_adopted_is_to_be_released() -> None:
    member = joined(0)
    beat(member, answer(3, 0, 1))
    beat(member, answer(4, 0))
    revoked_ms = member.now_ms
    beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == revoked_ms + REBALANCE_MS
    member.handle(TasksReleased(2))
    member.handle(TasksReleased(3))
    beat(member)
    assert lease_left_ms(member) == REBALANCE_MS


def test_new_tasks_that_are_not_adopted_yet_shorten_nothing() -> None:
    member = joined(0)
    beat(member, answer(4, 0, 1))
    for _ in range(3):
        beat(member)
        assert lease_left_ms(member) == REBALANCE_MS


def test_what_a_lost_answer_said_shortens_it_until_the_assignment_is_found() -> None:
    member = joined(0)
    answered_ms = member.now_ms
    member.beat()
    member.handle(events.Unanswered())
    beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == answered_ms + REBALANCE_MS
    member.handle(events.AssignmentFound(3, member.machine.owned))
    beat(member)
    assert lease_left_ms(member) == REBALANCE_MS


def test_a_member_that_closes_releases_nothing_before_it_leaves() -> None:
    member = joined(0)
    member.handle(CloseAsked())
    beat(member)
    assert lease_left_ms(member) == REBALANCE_MS, "nothing is asked for"
    beat(member, answer(4))
    revoked_ms = member.now_ms
    member.beat()
    member.handle(events.Unanswered())
    for _ in range(2):
        beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == revoked_ms + REBALANCE_MS


def test_a_lost_answer_to_a_member_that_closes_may_have_taken_its_tasks_away() -> None:
    member = joined(0)
    member.handle(CloseAsked())
    beat(member)
    answered_ms = member.now_ms
    member.beat()
    member.handle(events.Unanswered())
    for _ in range(2):
        beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == answered_ms + REBALANCE_MS


def test_an_answer_that_ends_a_member_may_take_its_tasks_away() -> None:
    member = joined(0)
    beat(member, events.Answered(replace(answer(4, 1).response, standby_tasks=None)))
    ended_ms = member.now_ms
    for _ in range(2):
        beat(member)
    assert member.machine.lease_ends_ms(SESSION_MS) == ended_ms + REBALANCE_MS


def test_a_member_that_is_out_has_none_and_a_later_membership_has_its_own() -> None:
    member = joined(0, 1)
    beat(member, answer(3, 0))
    assert member.handle(MembershipLost("a commit was refused")) == [DropAll("a commit was refused")]
    assert lease_left_ms(member) is None
    member.handle(events.TasksDropped())
    beat(member, answer(5, 0))
    assert lease_left_ms(member) == REBALANCE_MS
