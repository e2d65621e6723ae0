"""Processes that restart, as an observer sees them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.insight.inspect import _unchanging
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.forms import trailer_form
from kstreams_assign.observe.group_state import state_of_group
from kstreams_assign.observe.reasons import reasons
from tests.group.little_group import shape
from tests.observe.seen_group import SeenGroup

THIRD = UUID(int=3)


def seen_while_it_restarts() -> SeenGroup:
    group = SeenGroup(shape(), {"orders": 6, "clicks": 0}, AssignConfig(), "least_movement")
    for number in (1, 2, 3):
        group.add(number)
    group.settle()
    group.members[THIRD].restarting = True
    group.rebalance()
    group.remove(3)
    group.rebalance()
    return group


def test_it_says_which_tasks_wait_for_whom_and_how_long():
    group = seen_while_it_restarts()
    about = describe(group.observed())
    assert any("00000000 restarts: 0_" in text and "wait for it, 1 min at most" in text for text in reasons(about))
    assert not any("no process runs" in text for text in reasons(about))
    assert about.next_moves == (), "the next rebalance would wait as well"
    facts = document(about)
    assert facts["awaited"] == {str(THIRD): 60_000}
    assert set(facts["waiting"].values()) == {str(THIRD)}
    assert len(facts["waiting"]) == 2


def test_the_time_that_is_left_is_no_change_to_be_printed_again():
    group = seen_while_it_restarts()
    taken = (replace(group.snapshot(), assigned_ms=group.now_ms, taken_ms=group.now_ms + late) for late in (0, 2_000))
    before, after = (document(describe(replace(group.observed(), decoded=decode_group(each)))) for each in taken)
    assert before["awaited"] != after["awaited"]
    assert _unchanging(before) == _unchanging(after) != _unchanging({**after, "awaited": {}})


def test_a_prediction_assumes_that_it_does_not_come_back():
    state = state_of_group(seen_while_it_restarts().observed())
    assert "do not come back" in state.assumed["restarts"]
    assert not any(process.about.trailer.awaited for process in state.processes.values())


def test_decoded_trailers_show_it():
    group = seen_while_it_restarts()
    form = trailer_form(group.decoded().trailer)
    assert form["awaited"][str(THIRD)]["left_ms"] == 60_000
    member = next(iter(group.decoded().members.values())).report.trailer
    assert trailer_form(member)["awaited"][str(THIRD)]["active"]
    assert trailer_form(replace(member, awaited=None))["awaited"] is None
