"""The member's machine: its actions for each event, and that no event sequence blocks it or commits wrongly."""

from __future__ import annotations

from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.group import member as m
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import NO_PROBE_MS

NOW = 1_000_000
NOTHING = Adopted({}, frozenset(), frozenset())


def stable(adopted: Adopted = NOTHING) -> m.Member:
    member = m.Member()
    for event in (m.Started(), m.Assigned(1, adopted), m.TasksReleased()):
        member.handle(event, NOW)
    return member


def test_the_first_join_needs_no_commit() -> None:
    assert m.Member().handle(m.Started(), NOW) == [m.Join("first join")]


def test_a_rejoin_request_before_the_start_joins_once() -> None:
    member = m.Member()
    assert member.handle(m.RejoinWanted("draining"), NOW) == [m.Join("draining")]
    assert member.handle(m.Started(), NOW) == []
    assert member.state is m.State.JOINING


def test_running_work_is_committed_before_a_rejoin() -> None:
    member = stable()
    assert member.handle(m.RejoinWanted("a member joined"), NOW) == [m.Commit()]
    assert member.handle(m.WorkCommitted(), NOW) == [m.Join("a member joined")]
    assert member.state is m.State.JOINING


def test_the_next_join_waits_until_revoked_tasks_are_released() -> None:
    member = m.Member()
    member.handle(m.Started(), NOW)
    follow_up = Adopted({}, frozenset(), frozenset(), follow_up=True)
    assert member.handle(m.Assigned(1, follow_up), NOW) == [m.Adopt(1, follow_up)]
    assert member.handle(m.Tick(), NOW) == []
    assert member.handle(m.RejoinWanted("the group rebalances"), NOW) == []
    assert member.handle(m.TasksReleased(), NOW) == [m.ReleaseMutex(), m.Commit()]


def test_a_late_release_of_an_older_assignment_is_ignored() -> None:
    member = m.Member()
    for event in (m.Started(), m.Assigned(4, NOTHING), m.MembershipLost("slept"), m.Assigned(6, NOTHING)):
        member.handle(event, NOW)
    assert member.handle(m.TasksReleased(4), NOW) == []
    assert member.state is m.State.RELEASING
    assert member.handle(m.TasksReleased(6), NOW) == [m.ReleaseMutex()]
    assert member.state is m.State.STABLE


def test_a_rejoin_request_during_a_join_is_kept() -> None:
    member = m.Member()
    member.handle(m.Started(), NOW)
    member.handle(m.RejoinWanted("the cleaner was at work"), NOW)
    member.handle(m.Assigned(1, NOTHING), NOW)
    assert m.Commit() in member.handle(m.TasksReleased(), NOW)
    assert member.handle(m.WorkCommitted(), NOW) == [m.Join("the cleaner was at work")]


def test_a_rejoin_request_during_a_join_is_kept_where_the_old_membership_is_lost_meanwhile() -> None:
    """The JoinGroup that is under way may have left before the request."""
    member = stable()
    for event in (m.RejoinWanted("the group rebalances"), m.WorkCommitted(), m.RejoinWanted("draining")):
        member.handle(event, NOW)
    assert member.handle(m.MembershipLost("fenced"), NOW) == [m.DropAll("fenced"), m.Join("fenced")]
    member.handle(m.Assigned(2, NOTHING), NOW)
    assert member.handle(m.TasksReleased(), NOW) == [m.ReleaseMutex(), m.Commit()]
    assert member.handle(m.WorkCommitted(), NOW) == [m.Join("draining")]


def test_a_rejoin_request_before_the_join_is_answered_by_the_one_after_a_lost_membership() -> None:
    member = stable()
    member.handle(m.RejoinWanted("draining"), NOW)
    member.handle(m.MembershipLost("fenced"), NOW)
    member.handle(m.Assigned(2, NOTHING), NOW)
    assert member.handle(m.TasksReleased(), NOW) == [m.ReleaseMutex()]


def test_the_probe_is_requested_once_when_it_is_due() -> None:
    member = stable(Adopted({}, frozenset(), frozenset(), next_rebalance_ms=NOW + 60_000))
    assert member.handle(m.Tick(), NOW + 59_999) == []
    assert member.handle(m.Tick(), NOW + 60_000) == [m.Commit()]
    assert member.handle(m.WorkCommitted(), NOW + 60_000) == [m.Join(m.PROBE)]
    assert member.rejoin_at_ms == NO_PROBE_MS


def test_a_natural_rebalance_restarts_the_interval() -> None:
    member = stable(Adopted({}, frozenset(), frozenset(), next_rebalance_ms=NOW + 60_000))
    member.handle(m.RejoinWanted("a member left"), NOW)
    member.handle(m.WorkCommitted(), NOW)
    member.handle(m.Assigned(2, NOTHING), NOW)
    member.handle(m.TasksReleased(), NOW)
    assert member.handle(m.Tick(), NOW + 60_000) == []


def test_lost_membership_drops_everything_and_joins_again() -> None:
    member = stable()
    assert member.handle(m.MembershipLost("fenced"), NOW) == [m.DropAll("fenced"), m.Join("fenced")]
    assert member.generation is None


def test_a_closing_member_that_loses_its_membership_drops_everything_and_joins_no_more() -> None:
    """Its client joins again by itself: the last commit, in a generation that is not its own, must not begin."""
    member = stable()
    member.handle(m.CloseAsked(), NOW)
    assert member.handle(m.MembershipLost("fenced"), NOW) == [m.DropAll("fenced")]
    assert member.state is m.State.CLOSED


def test_closing_releases_the_mutex_from_every_state() -> None:
    for state in m.State:
        member = m.Member()
        member.state = state
        answer = member.handle(m.CloseAsked(), NOW)
        assert answer == ([] if state is m.State.CLOSED else [m.ReleaseMutex()])


@pytest.mark.parametrize("event", [m.WorkCommitted(), m.Assigned(1, NOTHING)])
def test_an_impossible_event_raises_key_error(event: m.Event) -> None:
    with pytest.raises(KeyError):
        m.Member().handle(event, NOW)


EVENTS: list[m.Event] = [
    m.RejoinWanted("x"),
    m.WorkCommitted(),
    m.Assigned(7, Adopted({}, frozenset(), frozenset(), follow_up=True)),
    m.Assigned(8, NOTHING),
    m.TasksReleased(),
    m.MembershipLost("y"),
    m.Tick(),
]


def _possible(member: m.Member, event: m.Event) -> bool:
    return (member.state, type(event)) in m.TRANSITIONS


def test_every_sequence_of_events_keeps_the_guarantees() -> None:
    """Walked to the last state that can be reached: a Join only ever follows a commit, a loss, or a first start."""
    first = m.Member()
    first.handle(m.Started(), NOW)
    reached, rest = {tuple(vars(first).values())}, [first]
    while rest:
        before = rest.pop()
        for event in (event for event in [*EVENTS, m.CloseAsked()] if _possible(before, event)):
            member = copy(before)
            answer = member.handle(event, NOW)
            if any(isinstance(action, m.Join) for action in answer):
                assert isinstance(event, m.WorkCommitted | m.MembershipLost)
                assert member.state is m.State.JOINING
            if isinstance(event, m.Assigned):
                assert not any(isinstance(action, m.Join | m.Commit) for action in answer)
            if (values := tuple(vars(member).values())) not in reached:
                reached.add(values)
                rest.append(member)
    assert {state for state, *_ in reached} == {*m.State} - {m.State.UNJOINED}


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_a_member_can_become_stable_after_any_events(events: list[m.Event]) -> None:
    member = m.Member()
    member.handle(m.Started(), NOW)
    for event in events:
        if _possible(member, event):
            member.handle(event, NOW)
    for _ in range(4):
        for event in (m.WorkCommitted(), m.Assigned(9, NOTHING), m.TasksReleased()):
            if _possible(member, event):
                member.handle(event, NOW)
    assert member.state is m.State.STABLE
