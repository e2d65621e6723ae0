"""How a member drains, restarts, and ends the application: what it reports, and when it leaves."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.engine import membership as engine
from kstreams_assign.engine.membership import (
    AnnounceDrainRefused,
    DrainAsked,
    Drained,
    Effect,
    MutexReleased,
    Received,
    ReportFacts,
    RestartAnnounced,
    RestartAsked,
    Turned,
)
from kstreams_assign.errors import ShutdownRequested
from kstreams_assign.group import member
from kstreams_assign.group.dialects import APACHE, KIP441
from kstreams_assign.group.member import MembershipLost, RejoinWanted, Started, State
from kstreams_assign.group.values import Adopted, ErrorCode
from kstreams_assign.model import NO_PROBE_MS, TaskId
from kstreams_assign.wire import AwaitedProcess, GroupTrailer
from tests.engine.member_machine import (
    KEPT,
    NOTHING,
    NOW_MS,
    OTHER,
    PROCESS,
    QUIET,
    RUNS,
    SHUT_DOWN,
    SUMS,
    Machine,
    T,
    active,
    info,
)


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.join(active(RUNS))
    return machine


# --- what is asked for before JoinGroup is made ---------------------------------------------


@pytest.mark.parametrize("asked", [DrainAsked(), RestartAsked()], ids=["drain", "restart"])
@pytest.mark.parametrize("lost", [False, True], ids=["first join", "after a loss"])
def test_what_the_next_report_has_is_not_joined_for_again(asked: DrainAsked | RestartAsked, lost: bool) -> None:
    machine = Machine()
    if lost:
        machine.join(active(RUNS))
        machine.handle(MembershipLost("it slept"))
    else:
        machine.handle(Started())
    machine.handle(asked)
    trailer = machine.report().trailer
    assert trailer is not None
    assert trailer.draining or trailer.restarting
    machine.receive(active(RUNS, draining=trailer.draining), generation=2)
    assert machine.handle(member.TasksReleased(2)) == [member.ReleaseMutex()]
    assert machine.engine.state is State.STABLE


def test_a_member_that_has_announced_its_restart_grants_no_request_from_before_or_after() -> None:
    machine = Machine()
    machine.join(active(RUNS))
    machine.handle(RestartAsked(), member.WorkCommitted())
    machine.report()
    machine.handle(RejoinWanted("its state is warm"))
    assert RestartAnnounced(awaited=False) in machine.receive(active(RUNS), generation=2)
    assert machine.handle(member.TasksReleased(2), RejoinWanted("its state is warm"), QUIET) == [member.ReleaseMutex()]
    assert machine.engine.state is State.STABLE


# --- a drain ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adopted", "effects"),
    [
        (active(RUNS, draining=True), []),
        (Adopted({}, frozenset(), frozenset(), follow_up=True, draining=True), []),
        (Adopted({}, frozenset({RUNS}), frozenset(), draining=True), [Drained()]),
        (Adopted({}, frozenset(), frozenset(), draining=True), [Drained()]),
        (active(RUNS), [AnnounceDrainRefused(engine.DRAIN_REFUSED), Drained()]),
        (NOTHING, [AnnounceDrainRefused(engine.DRAIN_REFUSED), Drained()]),
    ],
    ids=["still has tasks", "a follow-up comes", "a standby is left", "nothing is left", "refused", "refused, empty"],
)
def test_a_drain_is_over_when_nothing_is_left_or_nothing_can_move(
    machine: Machine, adopted: Adopted, effects: list[Effect]
) -> None:
    assert machine.handle(DrainAsked()) == [member.Commit()]
    assert machine.reason() == engine.DRAINING
    trailer = machine.report().trailer
    assert trailer is not None
    assert trailer.draining
    assert machine.receive(adopted, generation=2) == [member.Adopt(2, adopted), *effects]


def test_a_member_that_gets_the_assignment_of_its_drained_predecessor_asks_for_another() -> None:
    machine = Machine()
    machine.handle(Started())
    machine.report()
    old = Adopted({}, frozenset(), frozenset(), draining=True)
    effects = machine.receive(old)
    machine.handle(member.TasksReleased(1), MutexReleased(held=True))
    assert Drained() not in effects
    assert machine.reason() == engine.OLD_DRAIN


def test_a_member_whose_drained_predecessor_had_another_process_id_asks_once() -> None:
    machine = Machine()
    machine.handle(Started())
    machine.report()
    of_predecessor = Adopted({}, frozenset(), frozenset(), others_drain=True)
    machine.receive(of_predecessor)
    machine.handle(member.TasksReleased(1), MutexReleased(held=True))
    assert machine.reason() == engine.OLD_DRAIN
    machine.report()
    machine.receive(of_predecessor, generation=2)
    machine.handle(member.TasksReleased(2), MutexReleased(held=True))
    assert machine.engine.state is State.STABLE


def test_a_new_member_that_gets_tasks_while_another_drains_asks_for_nothing() -> None:
    machine = Machine()
    machine.handle(Started())
    machine.report()
    machine.receive(Adopted({}, frozenset({TaskId(0, 0)}), frozenset(), others_drain=True))
    machine.handle(member.TasksReleased(1), MutexReleased(held=True))
    assert machine.engine.state is State.STABLE


def test_an_assignment_that_was_decided_before_the_drain_was_reported_ends_no_drain(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.report()
    machine.handle(DrainAsked())
    assert machine.receive(NOTHING, generation=2) == [member.Adopt(2, NOTHING)]
    assert machine.handle(member.TasksReleased(2)) == [member.ReleaseMutex(), member.Commit()]
    assert machine.reason() == engine.DRAINING
    machine.report()
    assert machine.receive(NOTHING, generation=3)[1:] == [AnnounceDrainRefused(engine.DRAIN_REFUSED), Drained()]


# --- the end of the application ---------------------------------------------------------------


def test_a_member_that_asks_all_to_end_joins_and_reports_it(machine: Machine) -> None:
    assert machine.report().error_code == ErrorCode.NONE
    assert machine.handle(engine.ShutdownAsked()) == [member.Commit()]
    assert machine.reason() == engine.SHUTTING_DOWN
    assert machine.report().error_code == ErrorCode.SHUTDOWN_REQUESTED


def test_a_member_asks_all_to_end_until_an_assignment_answers_or_the_request_is_refused(machine: Machine) -> None:
    assert not machine.engine.asks_shutdown
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.report()
    machine.handle(engine.ShutdownAsked())
    machine.receive(active(RUNS), generation=2)
    machine.handle(member.TasksReleased(2), member.WorkCommitted())
    assert machine.engine.asks_shutdown, "that assignment was decided before the request"
    assert machine.report().error_code == ErrorCode.SHUTDOWN_REQUESTED
    machine.handle(Received(3, NOTHING, leads=False, end=SHUT_DOWN))
    assert not machine.engine.asks_shutdown
    refused = Machine()
    refused.handle(engine.ShutdownAsked(), Started())
    refused.report()
    refused.receive(active(RUNS, version=8))
    assert not refused.engine.asks_shutdown


def test_who_is_asked_to_end_does_not_ask(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted(), Received(2, NOTHING, leads=False, end=SHUT_DOWN))
    assert machine.report().error_code == ErrorCode.SHUTDOWN_REQUESTED, "it passes the request on"
    assert not machine.engine.asks_shutdown


def test_who_is_asked_to_end_releases_its_tasks_first_and_passes_it_on(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    received = machine.engine.read(2, [], info(error_code=ErrorCode.SHUTDOWN_REQUESTED))
    assert isinstance(received.end, ShutdownRequested)
    assert machine.report().error_code == ErrorCode.NONE, "it is not handled yet"
    assert machine.handle(received) == [member.Adopt(2, NOTHING)]
    assert machine.report().error_code == ErrorCode.SHUTDOWN_REQUESTED
    assert machine.handle(QUIET) == [], "its tasks are not released"
    machine.handle(member.TasksReleased(2))
    assert machine.handle(Turned(rebalancing=True, cleaning=False)) == [engine.EndMembership(received.end)]


def test_after_the_end_was_asked_for_no_assignor_is_explained(machine: Machine) -> None:
    other = info(trailer=GroupTrailer("sticky", 1))
    machine.handle(RejoinWanted("again"), member.WorkCommitted(), Received(2, NOTHING, leads=False, end=SHUT_DOWN))
    assert machine.engine.read(3, [], other).warnings == ()


REFUSED = engine.AnnounceShutdownRefused(engine.SHUTDOWN_REFUSED)


def in_version(machine: Machine, version: int, generation: int) -> None:
    """Take the machine from another version of user-data to this one: it joins twice."""
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    for number in (generation, generation + 1):
        machine.report()
        machine.receive(active(RUNS, version=version), number)
        machine.handle(member.TasksReleased(number), MutexReleased(held=True), member.WorkCommitted())
    assert (machine.engine.version, machine.engine.state) == (version, State.STABLE)


@pytest.mark.parametrize("version", [5, 7, 8])
def test_a_version_without_error_codes_refuses_the_end_and_keeps_no_request_for_later(
    machine: Machine, version: int
) -> None:
    in_version(machine, version, 2)
    assert not machine.engine.can_ask_shutdown
    assert machine.handle(engine.ShutdownAsked()) == [REFUSED]
    assert machine.engine.state is State.STABLE, "no rebalance is asked for in vain"
    in_version(machine, 11, 4)
    assert machine.report().error_code == ErrorCode.NONE
    assert machine.engine.can_ask_shutdown


def test_the_first_version_with_error_codes_carries_the_request(machine: Machine) -> None:
    in_version(machine, 9, 2)
    assert machine.handle(engine.ShutdownAsked()) == [member.Commit()]
    assert machine.reason() == engine.SHUTTING_DOWN
    assert APACHE.read_report(APACHE.write_report(machine.report())).error_code == ErrorCode.SHUTDOWN_REQUESTED


@pytest.mark.parametrize("asked", ["before the join", "during the join"])
def test_a_request_is_refused_once_the_group_turns_out_to_speak_an_earlier_version(asked: str) -> None:
    machine = Machine()
    if asked == "before the join":
        machine.handle(engine.ShutdownAsked())
    machine.handle(Started())
    machine.report()
    if asked == "during the join":
        machine.handle(engine.ShutdownAsked())
    assert REFUSED in machine.receive(active(RUNS, version=8))
    assert machine.report().error_code == ErrorCode.NONE


def test_a_refused_request_is_no_reason_to_join(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.report()
    machine.handle(engine.ShutdownAsked())
    machine.receive(active(RUNS, version=8), generation=2)
    machine.handle(member.TasksReleased(2), MutexReleased(held=True))
    assert machine.reason().startswith("version probing: ")


def test_a_member_that_is_to_end_refuses_nothing_when_the_version_goes_down(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted(), Received(2, NOTHING, leads=False, end=SHUT_DOWN))
    machine.handle(MembershipLost(engine.LOST))
    assert REFUSED not in machine.receive(active(version=8), generation=3)


# --- restarts -------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", [True, False])
def test_a_member_that_restarts_announces_it_and_learns_whether_it_is_awaited(machine: Machine, awaited: bool) -> None:
    (commit,) = machine.handle(RestartAsked())
    assert commit == member.Commit()
    assert machine.reason() == engine.RESTARTING
    assert machine.report().trailer.restarting
    by_the_leader = {PROCESS: AwaitedProcess(60_000, (RUNS,))} if awaited else {}
    effects = machine.receive(active(RUNS, awaited=by_the_leader, follow_up=True), generation=2)
    assert effects[-1] == RestartAnnounced(awaited)
    assert machine.handle(member.TasksReleased(2)) == [member.ReleaseMutex()], "it leaves: it does not join again"


@pytest.mark.parametrize("what", ["another joins again", "its time is over"])
def test_a_leader_that_restarts_stays_until_another_member_knows_that_it_is_awaited(what: str) -> None:
    machine = leader_that_restarts({PROCESS: AwaitedProcess(60_000, (RUNS,))})
    assert machine.handle(member.TasksReleased(2), MutexReleased(held=True)) == [member.ReleaseMutex()]
    assert machine.engine.due_ms == NOW_MS + engine.OTHERS_LEARN_WITHIN_MS
    machine.now_ms += engine.OTHERS_LEARN_WITHIN_MS - 1
    assert machine.handle(QUIET) == []
    machine.now_ms += what == "its time is over"
    leaves = Turned(rebalancing=what == "another joins again", cleaning=False)
    assert machine.handle(leaves) == [RestartAnnounced(awaited=True)]
    assert machine.handle(leaves) == [], "it is announced once, and no rebalance delays what is closed now"
    assert machine.engine.due_ms == NO_PROBE_MS


def test_a_member_that_has_announced_its_restart_takes_part_in_no_further_rebalance(machine: Machine) -> None:
    machine.handle(RestartAsked(), member.WorkCommitted())
    machine.report()
    soon = NOW_MS + 1
    machine.receive(
        active(RUNS, awaited={PROCESS: AwaitedProcess(60_000, (RUNS,))}, next_rebalance_ms=soon), generation=2
    )
    machine.handle(member.TasksReleased(2))
    machine.now_ms = soon
    assert machine.handle(QUIET, Turned(rebalancing=True, cleaning=False)) == []
    assert machine.engine.due_ms == NO_PROBE_MS


def test_a_leader_that_is_not_awaited_leaves_at_once() -> None:
    machine = leader_that_restarts({})
    assert machine.handle(member.TasksReleased(2), MutexReleased(held=True), QUIET) == [member.ReleaseMutex()]


def leader_that_restarts(awaited: dict[UUID, AwaitedProcess]) -> Machine:
    """Return the leader once it has its own assignment; without a wait it announces that at once."""
    machine = Machine()
    machine.join(active(RUNS))
    machine.handle(RestartAsked(), member.WorkCommitted())
    machine.report()
    machine.handle(engine.Elected())
    effects = machine.receive(active(RUNS, awaited=awaited, follow_up=True), generation=2)
    assert effects[1:] == ([] if awaited else [RestartAnnounced(awaited=False)])
    return machine


def test_a_leader_that_is_lost_while_it_stays_announces_its_restart_again() -> None:
    machine = leader_that_restarts({PROCESS: AwaitedProcess(60_000, (RUNS,))})
    machine.handle(MembershipLost(engine.LOST))
    assert machine.report().trailer.restarting
    assert machine.engine.due_ms == NO_PROBE_MS


def test_a_member_that_was_about_to_restart_and_drains_leaves_after_the_follow_up(machine: Machine) -> None:
    machine.handle(RestartAsked(), DrainAsked())
    assert machine.reason() == engine.RESTARTING
    machine.report()
    effects = machine.receive(Adopted({}, frozenset(), frozenset(), follow_up=True, draining=True), generation=2)
    assert not any(isinstance(effect, Drained) for effect in effects), "its task is not released yet"


def test_an_assignment_of_a_join_before_the_announcement_does_not_answer_it(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    assert not machine.report().trailer.restarting
    machine.handle(RestartAsked())
    effects = machine.receive(active(RUNS), generation=2)
    assert not any(isinstance(effect, RestartAnnounced) for effect in effects)
    machine.handle(member.TasksReleased(2))
    assert machine.reason() == engine.RESTARTING


def test_a_member_without_tasks_announces_nothing() -> None:
    assert Machine().handle(RestartAsked()) == [RestartAnnounced(awaited=False)]
    machine = Machine()
    machine.join(NOTHING)
    assert machine.handle(RestartAsked()) == [RestartAnnounced(awaited=False)]


def test_a_restart_ends_a_drain_and_what_is_left_waits(machine: Machine) -> None:
    machine.handle(DrainAsked(), member.WorkCommitted())
    assert machine.report().trailer.draining
    machine.handle(RestartAsked())
    machine.receive(active(RUNS, draining=True), generation=2)
    machine.handle(member.TasksReleased(2))
    assert machine.reason() == engine.RESTARTING
    trailer = machine.report().trailer
    assert (trailer.draining, trailer.restarting) == (False, True)
    awaited = {PROCESS: AwaitedProcess(60_000, (RUNS,))}
    assert machine.receive(active(RUNS, awaited=awaited), generation=3)[1:] == [RestartAnnounced(awaited=True)]


def test_a_report_says_who_is_awaited_and_how_long_still(machine: Machine) -> None:
    assert machine.report().trailer.awaited == {}
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.receive(active(RUNS, awaited={OTHER: AwaitedProcess(60_000, (T[1],))}), generation=2)
    for later_ms, left_ms in ((0, 60_000), (-5_000, 60_000), (54_999, 1)):
        facts = ReportFacts(True, SUMS, KEPT, machine.now_ms + later_ms)
        assert machine.report(facts).trailer.awaited == {OTHER: AwaitedProcess(left_ms, (T[1],))}
    assert machine.report(ReportFacts(True, SUMS, KEPT, machine.now_ms + 60_000)).trailer.awaited == {}


def test_the_leader_counts_a_wait_from_its_decision_and_not_from_its_assignment(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted(), engine.Elected())
    machine.now_ms += 3_000
    machine.receive(active(RUNS, awaited={OTHER: AwaitedProcess(60_000, (T[1],))}), generation=2)
    report = machine.report(ReportFacts(True, SUMS, KEPT, machine.now_ms))
    assert report.trailer.awaited == {OTHER: AwaitedProcess(57_000, (T[1],))}


def test_a_member_out_of_the_group_does_not_know_who_is_awaited(machine: Machine) -> None:
    machine.handle(MembershipLost(engine.LOST))
    assert machine.report().trailer.awaited is None


@pytest.mark.parametrize(("next_probe_ms", "due_ms"), [(None, NOW_MS + 7_000), (NOW_MS + 5_000, NOW_MS + 5_000)])
def test_in_the_kips_layout_the_leader_asks_when_the_wait_ends(next_probe_ms: int | None, due_ms: int) -> None:
    machine = Machine(dialect=KIP441)
    machine.handle(Started(), engine.Elected())
    facts = {} if next_probe_ms is None else {"next_rebalance_ms": next_probe_ms}
    machine.receive(active(RUNS, awaited={OTHER: AwaitedProcess(7_000, (T[1],))}, **facts))
    assert machine.engine.due_ms == due_ms
