"""Reports of how far the copies are: when they are due, what they carry, and a twin that keeps every report."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kstreams_assign.engine.streams_events import Answered, HeartbeatDue, SendHeartbeat, Unanswered
from kstreams_assign.engine.streams_membership import Profile, StreamsMembership
from kstreams_assign.engine.streams_offsets import OffsetReports, Positions, positions_of
from kstreams_assign.group.member import Started, TasksReleased
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import StreamsTopology
from kstreams_assign.wire.streams_structs import TaskIds, TaskOffset
from tests.engine.test_streams_membership import Member, answer

INTERVAL_MS = 60_000
A, B, C = (TaskId(0, number) for number in range(3))


def rows(**offsets: int) -> tuple[TaskOffset, ...]:
    return tuple(TaskOffset("0", "abc".index(name), offset) for name, offset in offsets.items())


class Reports:
    """The rule, with a clock that the test moves."""

    def __init__(self) -> None:
        self.reports = OffsetReports()
        self.now_ms = 1_000

    def at(self, offsets, ends=None, *, copies=frozenset({A, B}), warmups=frozenset(), lag=-1):
        positions = Positions(offsets, ends or {})
        if not self.reports.is_due(copies, warmups, self.now_ms):
            return None
        return self.reports.report(positions, copies, warmups, lag, INTERVAL_MS, self.now_ms)


def test_new_copies_are_reported_at_once_then_at_the_interval() -> None:
    reports = Reports()
    assert reports.at({A: 1, B: 2, C: 9}, {A: 5}) == (rows(a=1, b=2), rows(a=5))
    reports.now_ms += INTERVAL_MS - 1
    assert reports.at({A: 3, B: 2}, {A: 5}) is None
    reports.now_ms += 1
    assert reports.at({A: 3, B: 2}, {A: 5}) == (rows(a=3, b=2), None)


def test_a_copy_without_a_position_keeps_the_report_due() -> None:
    reports = Reports()
    assert reports.at({A: 1}) == (rows(a=1), None)
    assert reports.at({A: 1}) == (None, None)
    assert reports.at({A: 1, B: 0}) == (rows(a=1, b=0), None)
    assert reports.at({A: 1, B: 7}) is None


def test_the_last_copy_that_leaves_is_reported_once() -> None:
    reports = Reports()
    reports.at({A: 1, B: 2})
    assert reports.at({}, copies=frozenset()) == ((), None)
    reports.now_ms += INTERVAL_MS
    assert reports.at({}, copies=frozenset()) is None


@pytest.mark.parametrize(("offset", "lag", "reported"), [(90, 10, True), (89, 10, False), (100, -1, False)])
def test_a_warm_up_is_reported_once_it_has_caught_up(offset: int, lag: int, *, reported: bool) -> None:
    reports = Reports()
    held = {"copies": frozenset({A, B}), "warmups": frozenset({B}), "lag": lag}
    reports.at({A: 1, B: 2}, {B: 100}, **held)
    said = reports.at({A: 1, B: offset}, {B: 100}, **held)
    assert said == ((rows(a=1, b=offset), None) if reported else (None, None))


def test_after_a_failure_everything_is_reported_again() -> None:
    reports = Reports()
    reports.at({A: 1, B: 2}, {A: 3})
    reports.reports.forget()
    assert reports.at({A: 1, B: 2}, {A: 3}) == (rows(a=1, b=2), rows(a=3))


def test_what_the_coordinator_puts_together_is_what_was_known_at_the_last_report() -> None:
    """The coordinator keeps a list until another comes (``None``: unchanged)."""
    for seed in range(200):
        random = Random(seed)
        reports, known = Reports(), [(), ()]
        for _ in range(30):
            copies = frozenset(random.sample([A, B, C], random.randint(0, 3)))
            offsets = {task: random.randint(0, 3) for task in (A, B, C) if random.random() < 0.8}
            ends = {task: 3 for task in offsets if random.random() < 0.8}
            warmups = frozenset(task for task in copies if random.random() < 0.3)
            said = reports.at(offsets, ends, copies=copies, warmups=warmups, lag=0)
            reports.now_ms += random.choice([1, INTERVAL_MS])
            if said is None or said == (None, None):
                continue
            known = [before if news is None else news for before, news in zip(known, said, strict=True)]
            for sums, kept in zip((offsets, ends), known, strict=True):
                assert {row.partition: row.offset for row in kept} == {
                    task.partition: offset for task, offset in sums.items() if task in copies
                }, seed


def test_a_running_task_has_no_position() -> None:
    sums = {A: RUNNING_OFFSET_SUM, B: 5, C: 7}
    assert positions_of(sums, {A: 0, B: 2}) == Positions({B: 5, C: 7}, {B: 7})


# --- in the membership ------------------------------------------------------------------------

PROFILE = Profile("app", "me", "process", StreamsTopology(0, ()), 300_000)


def with_a_standby(*, reports_offsets: bool) -> Member:
    """A member that has one standby and has reported that it owns it."""
    member = Member(replace(PROFILE, reports_offsets=reports_offsets))
    member.beat()
    response = StreamsHeartbeatResponse(
        0,
        0,
        None,
        "me",
        3,
        5_000,
        INTERVAL_MS,
        10,
        active_tasks=(),
        standby_tasks=(TaskIds("0", (0,)),),
        warmup_tasks=(),
    )
    member.handle(Answered(response))
    member.handle(TasksReleased(1))
    return member


def heartbeat(member: Member, positions: Positions | None) -> StreamsHeartbeatRequest:
    due_ms = member.machine.due_ms()
    assert due_ms is not None
    member.now_ms = max(member.now_ms, due_ms)
    (effect,) = member.handle(HeartbeatDue(positions))
    assert isinstance(effect, SendHeartbeat)
    return effect.request


def test_a_member_reports_its_standby_with_its_next_heartbeat() -> None:
    member = with_a_standby(reports_offsets=True)
    assert member.machine.wants_positions(member.now_ms)
    request = heartbeat(member, Positions({A: 5}, {A: 8}))
    assert (request.task_offsets, request.task_end_offsets) == (rows(a=5), rows(a=8))
    assert not member.machine.wants_positions(member.now_ms)
    member.handle(answer(3, lists=False))
    assert heartbeat(member, Positions({A: 6}, {A: 8})).task_offsets is None


def test_an_unanswered_report_is_repeated() -> None:
    member = with_a_standby(reports_offsets=True)
    heartbeat(member, Positions({A: 5}))
    member.handle(Unanswered())
    assert member.machine.wants_positions(member.now_ms)
    assert heartbeat(member, Positions({A: 5})).task_offsets == rows(a=5)


def test_a_lost_report_that_there_are_no_copies_any_more_is_repeated() -> None:
    member = with_a_standby(reports_offsets=True)
    heartbeat(member, Positions({A: 5}, {A: 8}))
    member.handle(answer(3))
    member.handle(TasksReleased(2))
    report = heartbeat(member, Positions())
    assert (report.task_offsets, report.task_end_offsets) == ((), ())
    member.handle(Unanswered())
    report = heartbeat(member, Positions())
    assert (report.task_offsets, report.task_end_offsets) == ((), ())
    member.handle(answer(3))
    assert not member.machine.wants_positions(member.now_ms)


def test_copies_that_change_before_a_heartbeat_is_sent_are_reported_with_the_next_one() -> None:
    """The positions were not looked up: none was due. An empty report would take those away that are known."""
    member = with_a_standby(reports_offsets=True)
    heartbeat(member, Positions({A: 5}))
    member.handle(answer(3))
    assert not member.machine.wants_positions(member.now_ms)
    member.handle(TasksReleased(2))
    request = heartbeat(member, None)
    assert (request.task_offsets, request.task_end_offsets) == (None, None)
    member.handle(answer(3, lists=False))
    assert heartbeat(member, Positions()).task_offsets == ()


def test_nothing_is_reported_to_brokers_that_do_not_take_it() -> None:
    member = with_a_standby(reports_offsets=False)
    assert not member.machine.wants_positions(member.now_ms)
    assert heartbeat(member, Positions({A: 5})).task_offsets is None
    full = StreamsHeartbeatRequest("app", "me", 3, warmup_tasks=(TaskIds("0", (1,)),), task_offsets=rows(a=1))
    assert full.as_taken_in(0) == StreamsHeartbeatRequest("app", "me", 3, warmup_tasks=())
    assert full.as_taken_in(1) is full


def test_a_member_that_joins_reports_no_positions() -> None:
    machine = StreamsMembership(PROFILE)
    machine.handle(Started(), 0)
    assert not machine.wants_positions(0)
