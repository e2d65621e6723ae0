"""A heartbeat that was given up may arrive after later ones, so the assignment is looked up again for a while."""

from __future__ import annotations

import pytest

from kstreams_assign.engine import streams_events as events
from kstreams_assign.engine.streams_membership import LOOK_FIRST_MS, LOOK_LAST_MS
from tests.engine.test_streams_membership import Member, answer, joined, tasks


def look_ups(member: Member, until_ms: int, found: events.AssignmentFound) -> list[int]:
    """Have heartbeats answered without tasks, and look-ups with what was ``found``; return when there were any."""
    asked_ms = []
    while member.now_ms < until_ms:
        member.beat()
        if events.LookUpAssignment() in member.handle(answer(3, lists=False)):
            asked_ms.append(member.now_ms)
            member.handle(found)
    return asked_ms


def unanswered(member: Member) -> int:
    """Have a heartbeat given up; return when."""
    member.beat()
    member.handle(events.Unanswered())
    return member.now_ms


def test_a_task_that_only_a_late_heartbeat_was_answered_with_is_found() -> None:
    member = joined(0)
    began_ms = unanswered(member)
    same = events.AssignmentFound(3, tasks(0))
    assert len(look_ups(member, began_ms + LOOK_FIRST_MS // 2, same)) == 1
    adopted = []
    while not adopted:
        member.beat()
        if events.LookUpAssignment() in member.handle(answer(3, lists=False)):
            adopted = member.handle(events.AssignmentFound(3, tasks(0, 1)))
    assert adopted == [events.AdoptTasks(2, 3, tasks(0, 1))]
    assert member.now_ms >= began_ms + LOOK_FIRST_MS


def test_look_ups_become_rarer_and_end() -> None:
    member = joined(0)
    began_ms = unanswered(member)
    asked_ms = look_ups(member, began_ms + 10 * LOOK_LAST_MS, events.AssignmentFound(3, tasks(0)))
    assert [round((at_ms - began_ms) / 1000) for at_ms in asked_ms] == [0, 10, 50, 210]
    began_ms = unanswered(member)
    assert look_ups(member, began_ms + LOOK_FIRST_MS // 2, events.AssignmentFound(3, tasks(0))) != []


def test_a_look_up_that_finds_nothing_new_reports_nothing() -> None:
    member = joined(0)
    unanswered(member)
    look_ups(member, member.now_ms + LOOK_FIRST_MS // 2, events.AssignmentFound(3, tasks(0)))
    while events.LookUpAssignment() not in member.handle(answer(3, lists=False)):
        member.beat()
    due_ms = member.machine.due_ms()
    assert member.handle(events.AssignmentFound(3, tasks(0))) == []
    assert (due_ms, member.machine.due_ms()) == (None, member.now_ms + 5_000)
    assert member.beat().active_tasks is None


@pytest.mark.parametrize("failed", [events.LookupFailed(), events.AssignmentFound(2, tasks(7))])
def test_a_look_up_that_fails_is_made_again(failed: events.Event) -> None:
    member = joined(0)
    began_ms = unanswered(member)
    look_ups(member, began_ms + LOOK_FIRST_MS // 2, events.AssignmentFound(3, tasks(0)))
    while events.LookUpAssignment() not in member.handle(answer(3, lists=False)):
        member.beat()
    failed_ms = member.now_ms
    assert member.handle(failed) == []
    asked_ms = look_ups(member, failed_ms + 12_000, events.AssignmentFound(3, tasks(0)))
    assert [at_ms - failed_ms for at_ms in asked_ms] == [5_000], "with a heartbeat of its own time"
