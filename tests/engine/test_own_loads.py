"""A member's own loads: a task keeps its load when it moves, and the member asks for a rebalance where that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.engine.membership import (
    DrainAsked,
    LoadsMeasured,
    Membership,
    MutexReleased,
    Profile,
    ReportFacts,
)
from kstreams_assign.group import member
from kstreams_assign.group.member import RejoinWanted, State
from tests.engine.member_machine import OTHER, PROCESS, SHAPE, TRAILER, Machine, T, active, info

INTERVAL_MS = 60_000


class Weighing(Machine):
    """A member with ``balance_by``."""

    def __init__(self, balance_by: str = "input_rate") -> None:
        super().__init__()
        trailer = replace(TRAILER, balance_by=balance_by)
        self.engine = Membership(Profile(PROCESS, SHAPE, "least_movement", trailer, loads_interval_ms=INTERVAL_MS))

    def loads(self, measured):
        """Return what a report says of these measures."""
        facts = ReportFacts(True, {}, {}, self.now_ms, loads=measured)
        return self.report(facts).trailer.loads

    def rejoin(self, measured, adopted, generation=2) -> None:
        """Join with these measures, and get this assignment."""
        self.handle(RejoinWanted("again"), member.WorkCommitted())
        self.loads(measured)
        self.receive(adopted, generation)
        self.handle(member.TasksReleased(generation), MutexReleased(held=True))

    def asks(self, measured) -> bool:
        """Return whether the member asks for a rebalance now."""
        self.handle(LoadsMeasured(measured))
        return self.engine.state is not State.STABLE


def test_a_report_has_what_is_measured_and_else_what_the_assignment_says():
    machine = Weighing()
    machine.join(active(T[0], T[1], loads={T[0]: 500, T[3]: 9}))
    assert machine.loads({T[1]: 12_345}) == {T[0]: 500, T[1]: 12_000}
    assert machine.loads({T[2]: 12_345}) == {T[0]: 500, T[1]: 12_000}, "a task of another member is not reported"


def test_a_task_that_is_promised_to_this_process_keeps_its_load_until_it_comes():
    machine = Weighing()
    waits = active(T[0], loads={T[0]: 500, T[1]: 700, T[2]: 800}, promised={T[1]: PROCESS, T[2]: OTHER})
    machine.join(waits)
    assert machine.loads({}) == {T[0]: 500, T[1]: 700}


def test_a_trailer_without_loads_leaves_the_last_report():
    machine = Weighing()
    machine.join(active(T[0]))
    machine.rejoin({T[0]: 5000}, active(T[0]))
    assert machine.loads({T[0]: 5100}) == {T[0]: 5000}


def test_with_tasks_nothing_is_reported_nor_asked_for():
    machine = Weighing("tasks")
    machine.join(active(T[0]))
    machine.now_ms += INTERVAL_MS
    assert not machine.asks({T[0]: 5000})
    assert machine.loads({T[0]: 5000}) == {}


def test_the_member_asks_once_the_interval_is_over():
    machine = Weighing()
    machine.join(active(T[0], T[1]))
    machine.now_ms += INTERVAL_MS - 1
    assert not machine.asks({T[0]: 5000, T[1]: 10})
    machine.now_ms += 1
    assert not machine.asks({})
    machine.handle(LoadsMeasured({T[0]: 5000, T[1]: 10}))
    assert machine.reason() == "balance_by = input_rate: the load of 0_0, 0_1 is known now"


@pytest.mark.parametrize(
    ("measured", "asks"),
    [({T[0]: 1100, T[1]: 1000}, False), ({T[0]: 200, T[1]: 1800}, False), ({T[0]: 3000, T[1]: 1000}, True)],
)
def test_it_asks_again_only_if_the_sum_of_its_tasks_has_changed(measured, asks):
    machine = Weighing()
    machine.join(active(T[0], T[1]))
    machine.rejoin({T[0]: 1000, T[1]: 1000}, active(T[0], T[1], loads={T[0]: 1000, T[1]: 1000}))
    machine.now_ms += INTERVAL_MS
    assert machine.asks(measured) is asks


def test_it_does_not_ask_a_leader_that_uses_no_loads():
    """Members' settings differ, or a Java member is present: a rebalance would change nothing."""
    machine = Weighing()
    machine.join(active(T[0]))
    machine.rejoin({T[0]: 1000}, active(T[0]))
    machine.now_ms += INTERVAL_MS
    assert not machine.asks({T[0]: 9000})


def test_it_does_not_ask_while_it_drains():
    machine = Weighing()
    machine.join(active(T[0]))
    machine.handle(DrainAsked(), member.WorkCommitted())
    machine.report()
    machine.receive(active(T[0], draining=True), 2)
    machine.handle(member.TasksReleased(2), MutexReleased(held=True))
    machine.now_ms += INTERVAL_MS
    assert not machine.asks({T[0]: 9000})


def test_a_member_that_follows_javas_decision_is_warned():
    said = [Weighing(each).engine.read(1, [], info()).warnings for each in ("tasks", "input_rate")]
    assert [sum("balance_by" in warning for warning in warnings) for warnings in said] == [0, 1]
