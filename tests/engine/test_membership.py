"""A member around its table, without threads, clients or state: what it owns, reports and asks for."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kstreams_assign.engine import membership as engine
from kstreams_assign.engine.membership import (
    AnnounceJoining,
    DrainAsked,
    Event,
    MutexReleased,
    Received,
    ReportFacts,
    Turned,
)
from kstreams_assign.errors import AssignmentRefused, MalformedUserData
from kstreams_assign.group import member
from kstreams_assign.group.dialects import APACHE, KIP441, MemberReport
from kstreams_assign.group.member import PROBE, CloseAsked, MembershipLost, RejoinWanted, Started, State, Tick
from kstreams_assign.group.values import Adopted, ErrorCode
from kstreams_assign.model import (
    NO_PROBE_MS,
    RUNNING_OFFSET_SUM,
    HostInfo,
    TopicPartition,
)
from kstreams_assign.wire import AwaitedProcess, GroupTrailer, MemberTrailer
from tests.engine.member_machine import (
    KEPT,
    NOTHING,
    NOW_MS,
    OTHER,
    PROCESS,
    PROMISED,
    QUIET,
    RUNS,
    SHUT_DOWN,
    SUMS,
    UNPROMISED,
    Machine,
    T,
    active,
    info,
    inputs,
)

HOUR_MS = 3_600_000


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.join(active(RUNS))
    return machine


# --- what is claimed ------------------------------------------------------------


def test_what_an_assignment_gives_is_claimed_once_what_it_took_is_released() -> None:
    machine = Machine()
    machine.join(active(T[0], T[1]))
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.receive(active(T[1], T[2]), generation=2)
    assert machine.claimed == inputs(T[0], T[1]), "0_0 may still run"
    machine.handle(member.TasksReleased(2))
    assert machine.claimed == inputs(T[1], T[2])


def test_a_release_for_an_older_assignment_changes_nothing() -> None:
    machine = Machine()
    machine.join(active(T[0]))
    machine.handle(MembershipLost("lost"))
    machine.receive(active(T[1]), generation=2)
    assert machine.handle(member.TasksReleased(1)) == []
    assert (machine.claimed, machine.engine.state) == ((), State.RELEASING)
    machine.handle(member.TasksReleased(2))
    assert machine.claimed == inputs(T[1])


def test_a_program_that_names_no_generation_releases_the_newest(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.receive(active(T[2]), generation=2)
    machine.handle(member.TasksReleased())
    assert machine.claimed == inputs(T[2])


def test_a_member_that_the_group_left_behind_claims_nothing_and_knows_of_no_task(machine: Machine) -> None:
    assert machine.handle(MembershipLost(engine.LOST)) == [
        member.DropAll(engine.LOST),
        member.Join(engine.LOST),
        AnnounceJoining(engine.LOST),
    ]
    about = machine.engine
    assert (machine.claimed, about.adopted, about.assigned, about.inputs) == ((), None, frozenset(), ())
    assert (about.promised, about.generation) == ({}, None)


def test_a_late_release_after_a_loss_claims_nothing(machine: Machine) -> None:
    machine.handle(MembershipLost(engine.LOST), member.TasksReleased(1), member.TasksReleased())
    assert machine.claimed == ()


def test_everything_assigned_is_known_in_any_role() -> None:
    machine = Machine()
    machine.join(Adopted({T[0]: inputs(T[0])}, frozenset({T[1]}), frozenset({T[2]}), promised={T[3]: PROCESS}))
    about = machine.engine
    assert (about.assigned, about.inputs, about.promised) == (frozenset(T[:3]), inputs(T[0]), {T[3]: PROCESS})


# --- what is reported -------------------------------------------------------------


@pytest.mark.parametrize(("facts", "sums"), [(PROMISED, SUMS), (UNPROMISED, KEPT)], ids=["held", "not held"])
def test_state_that_may_be_deleted_is_reported_only_under_the_mutex(facts: ReportFacts, sums: Any) -> None:
    machine = Machine()
    assert machine.report(facts).task_offset_sums == sums
    assert machine.engine.reported == sums


def test_a_closed_member_promises_nothing(machine: Machine) -> None:
    """Its client may still try to join, and nothing would release the mutex afterwards."""
    assert machine.engine.may_promise
    machine.handle(CloseAsked())
    assert not machine.engine.may_promise


def test_a_report_says_what_the_profile_says() -> None:
    machine = Machine(application_server="here:80", endpoint=HostInfo("here", 80), client_tags={"rack": "a"})
    report = machine.report(ReportFacts(True, SUMS, KEPT, NOW_MS, partitions=9))
    assert report == MemberReport(
        version=11,
        latest_supported_version=11,
        process_id=PROCESS,
        user_end_point="here:80",
        task_offset_sums=SUMS,
        unique_field=1,
        client_tags={"rack": "a"},
        trailer=MemberTrailer({"least_movement": 2}, "digest", partitions=9, exactly_once=True),
    )


@pytest.mark.parametrize("dialect", [APACHE, KIP441], ids=lambda dialect: dialect.protocol_name)
def test_no_two_joins_have_the_same_bytes_or_the_brokers_would_ignore_a_probe(dialect: Any) -> None:
    machine = Machine(dialect=dialect)
    reports = [dialect.write_report(machine.report()) for _ in range(128)]
    assert len(set(reports)) == 128


def test_the_unique_field_is_a_byte_from_0_to_127() -> None:
    machine = Machine()
    assert [machine.report().unique_field for _ in range(130)] == [*range(1, 128), 0, 1, 2]


def test_a_version_without_a_unique_field_carries_it_in_the_trailer() -> None:
    machine = Machine()
    machine.handle(Started())
    machine.receive(active(RUNS, version=7))
    report = machine.report()
    assert report.trailer is not None
    assert (report.version, report.trailer.join) == (7, report.unique_field)


def test_the_kips_dialect_reports_lags_where_the_end_is_known() -> None:
    machine = Machine(dialect=KIP441)
    sums = {T[3]: 7, T[0]: RUNNING_OFFSET_SUM, T[1]: 5, T[2]: 6}
    lags = machine.report(ReportFacts(True, sums, {}, NOW_MS, ends={T[1]: 12, T[3]: 7})).task_lags
    assert lags == {T[0]: 0, T[1]: 7, T[3]: 0}
    assert [*lags] == sorted(lags)
    assert machine.report(UNPROMISED).task_lags == {T[0]: 0}
    assert Machine().report().task_lags is None


# --- who leads ---------------------------------------------------------------------


def test_a_member_leads_from_its_election_to_its_next_report(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.report()
    machine.handle(engine.Elected())
    assert machine.engine.leads
    assert machine.engine.read(2, inputs(RUNS), info(active_tasks=(RUNS,))).leads
    machine.report()  # its SyncGroup was lost: in the new generation another member may be elected
    assert not machine.engine.read(3, inputs(RUNS), info(active_tasks=(RUNS,))).leads


def test_a_leader_leads_on_until_it_joins_again(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted(), engine.Elected())
    machine.receive(active(RUNS), generation=2)
    machine.handle(member.TasksReleased(2), RejoinWanted("once more"))
    assert machine.engine.leads
    machine.handle(member.WorkCommitted())
    assert not machine.engine.leads


def test_for_a_decision_it_knows_how_old_its_report_is_also_if_the_assignment_is_lost(machine: Machine) -> None:
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.now_ms += 1_000
    machine.report(replace(PROMISED, now_ms=machine.now_ms))
    machine.handle(MembershipLost("lost"))
    assert machine.engine.joined_ago_ms(NOW_MS + 31_000) == 30_000


# --- assignments are read ------------------------------------------------------------


def test_reading_an_assignment_changes_nothing_until_it_is_handled() -> None:
    machine = Machine()
    machine.handle(Started())
    trailer = GroupTrailer("least_movement", 2)
    received = machine.engine.read(4, inputs(RUNS), info(active_tasks=(RUNS,), trailer=trailer))
    assert (received.generation, received.adopted.active, received.leads) == (4, {RUNS: inputs(RUNS)}, False)
    assert (received.end, received.warnings) == (None, ())
    assert (machine.engine.adopted, machine.engine.state) == (None, State.JOINING)
    assert machine.handle(received) == [member.Adopt(4, received.adopted)]
    assert machine.engine.adopted is received.adopted


def test_another_assignor_than_the_setting_is_explained() -> None:
    machine = Machine()
    machine.handle(Started())
    (warning,) = machine.engine.read(1, [], info(trailer=GroupTrailer("sticky", 1))).warnings
    assert warning.startswith("the leader uses assignor sticky, but assignor is least_movement here")


@pytest.mark.parametrize(
    ("user_data", "error"),
    [(info(error_code=ErrorCode.ASSIGNMENT_ERROR), AssignmentRefused), (b"\0\0\0\x0b", MalformedUserData)],
)
def test_an_assignment_that_cannot_be_taken_raises_and_changes_nothing(
    machine: Machine, user_data: bytes, error: type[Exception]
) -> None:
    before = machine.engine.adopted
    with pytest.raises(error):
        machine.engine.read(2, [], user_data)
    assert (machine.engine.adopted, machine.engine.generation) == (before, 1)


def test_an_assignment_in_another_version_is_adopted_and_the_member_joins_again_in_that_one() -> None:
    machine = Machine()
    machine.handle(Started())
    older = active(RUNS, version=9)
    assert machine.receive(older) == [member.Adopt(1, older)]
    assert machine.handle(member.TasksReleased(1)) == [member.ReleaseMutex(), member.Commit()]
    assert machine.reason() == "version probing: this member speaks version 9 from now on"
    assert (machine.report().version, machine.report().latest_supported_version) == (9, 11)
    assert machine.receive(older, generation=2) == [member.Adopt(2, older)]
    assert machine.handle(member.TasksReleased(2)) == [member.ReleaseMutex()], "it speaks that version by now"


# --- why a stable member asks for a rebalance ------------------------------------------


@pytest.mark.parametrize(
    ("turn", "again", "date_ms", "reason"),
    [
        (QUIET, False, NO_PROBE_MS, None),
        (QUIET, False, 10_001, None),
        (QUIET, False, 10_000, PROBE),
        (Turned(True, False), False, NO_PROBE_MS, engine.REBALANCING),
        (Turned(True, True), True, 10_000, engine.REBALANCING),
        (QUIET, True, NO_PROBE_MS, engine.REPORT_AGAIN),
        (QUIET, True, 10_000, engine.REPORT_AGAIN),
        (Turned(False, True), True, NO_PROBE_MS, None),
        (Turned(False, True), True, 10_000, PROBE),
        (Turned(False, True), False, NO_PROBE_MS, None),
    ],
)
def test_a_stable_member_asks_for_a_rebalance(turn: Turned, again: bool, date_ms: int, reason: str | None) -> None:
    machine = Machine()
    machine.now_ms = 9_000
    machine.join(active(RUNS, next_rebalance_ms=date_ms))
    machine.now_ms = 10_000
    machine.handle(MutexReleased(held=not again))
    assert machine.handle(turn) == ([] if reason is None else [member.Commit()])
    if reason is not None:
        assert machine.reason() == reason


@pytest.mark.parametrize("step_ms", [0, 1, HOUR_MS])
def test_a_wall_clock_that_is_set_back_delays_no_rebalance_that_is_due(step_ms: int) -> None:
    """The group may wait for a process that restarts: its tasks have no owner until then."""
    machine = Machine()
    machine.now_ms = 2 * HOUR_MS
    waits = AwaitedProcess(300_000, active=(T[1],))
    adopted = active(RUNS, next_rebalance_ms=machine.now_ms + 300_000, awaited={OTHER: waits})
    machine.join(adopted)
    asked_ms = None
    for passed_ms in range(0, 301_000, 500):
        machine.now_ms = 2 * HOUR_MS + passed_ms - (step_ms if passed_ms >= 100_000 else 0)
        if machine.handle(QUIET) == [member.Commit()]:
            asked_ms = passed_ms
            break
    assert asked_ms == (300_500 if step_ms else 300_000), "only the time between two turns is not known"
    left = machine.engine.awaited(machine.now_ms)
    assert left is not None
    assert sum(process.left_ms for process in left.values()) <= 500


def test_a_wall_clock_that_is_set_back_leaves_dates_alone_that_are_none(machine: Machine) -> None:
    machine.now_ms -= 5_000
    assert machine.handle(QUIET) == []
    assert machine.engine.due_ms == NO_PROBE_MS


def test_a_wall_clock_that_is_set_back_makes_a_member_that_restarts_leave_no_later() -> None:
    machine = Machine()
    machine.join(active(RUNS))
    machine.handle(engine.RestartAsked(), member.WorkCommitted(), engine.Elected())
    machine.report()
    machine.handle(engine.Elected())
    machine.receive(active(RUNS, awaited={PROCESS: AwaitedProcess(300_000, active=(RUNS,))}), generation=2)
    machine.handle(member.TasksReleased(2), MutexReleased(held=True))
    assert machine.handle(QUIET) == []
    machine.now_ms -= 9_000
    assert machine.handle(QUIET) == []
    machine.now_ms += engine.OTHERS_LEARN_WITHIN_MS
    assert machine.handle(QUIET) == [engine.RestartAnnounced(awaited=True)]


@pytest.mark.parametrize("before_join", [False, True])
def test_a_wall_clock_that_is_set_back_around_joingroup_ends_no_wait(before_join: bool) -> None:
    machine = Machine()
    machine.join(active(RUNS, awaited={OTHER: AwaitedProcess(600_000, active=(T[1],))}))
    machine.handle(RejoinWanted("again"), member.WorkCommitted())
    machine.now_ms -= 5_000 if before_join else 0
    report = machine.report(replace(PROMISED, now_ms=machine.now_ms))
    machine.now_ms -= 0 if before_join else 5_000
    machine.handle(engine.Elected())
    assert report.trailer is not None
    assert report.trailer.awaited[OTHER].left_ms == 600_000
    assert machine.engine.joined_ago_ms(machine.now_ms) == 0


@pytest.mark.parametrize("state", [State.UNJOINED, State.PREPARING, State.JOINING, State.RELEASING, State.CLOSED])
def test_a_member_that_is_not_stable_waits_with_its_reasons(state: State) -> None:
    machine = Machine()
    given = Received(1, active(RUNS), leads=False)
    steps: list[Event] = [Started(), given, member.TasksReleased(1), RejoinWanted("again")]
    upto = {State.UNJOINED: 0, State.JOINING: 1, State.RELEASING: 2, State.PREPARING: 4, State.CLOSED: 4}[state]
    machine.handle(*steps[:upto], *([CloseAsked()] if state is State.CLOSED else []))
    machine.handle(MutexReleased(held=False))
    assert machine.engine.state is state
    assert machine.handle(Turned(rebalancing=True, cleaning=False)) == []
    assert machine.engine.report_again, "it is not forgotten"


def test_a_report_into_which_the_cleaner_broke_is_repeated_once(machine: Machine) -> None:
    machine.handle(MutexReleased(held=False))
    assert machine.handle(QUIET) == [member.Commit()]
    assert machine.reason() == engine.REPORT_AGAIN
    machine.receive(active(RUNS), generation=2)
    machine.handle(member.TasksReleased(2), MutexReleased(held=True))
    assert machine.handle(QUIET) == []


def test_the_mutex_is_released_when_the_tasks_are_the_member_is_closed_or_was_never_in() -> None:
    machine = Machine()
    assert machine.handle(MembershipLost("lost")) == [member.DropAll("lost"), member.ReleaseMutex()]
    machine.handle(Started())
    assert machine.receive(active(RUNS)) == [member.Adopt(1, active(RUNS))]
    assert machine.handle(member.TasksReleased(1)) == [member.ReleaseMutex()]
    assert machine.handle(CloseAsked()) == [member.ReleaseMutex()]


# --- late events ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        Started(),
        RejoinWanted("again"),
        member.WorkCommitted(),
        member.TasksReleased(1),
        Tick(),
        CloseAsked(),
        Turned(rebalancing=True, cleaning=False),
        engine.Elected(),
        Received(2, active(T[2]), leads=False),
        Received(2, active(T[2], version=9), leads=False),
        Received(2, NOTHING, leads=False, end=SHUT_DOWN),
        MutexReleased(held=False),
        engine.ShutdownAsked(),
        DrainAsked(),
    ],
    ids=repr,
)
def test_a_closed_member_does_nothing_more(machine: Machine, event: Event) -> None:
    machine.handle(CloseAsked())
    assert machine.handle(event) == []
    assert machine.engine.state is State.CLOSED
    assert machine.engine.adopted == active(RUNS)


def test_a_closed_member_drops_its_tasks_when_its_membership_is_lost(machine: Machine) -> None:
    machine.handle(CloseAsked())
    assert machine.handle(MembershipLost("lost")) == [member.DropAll("lost")]
    assert (machine.engine.state, machine.engine.owned, machine.engine.adopted) == (State.CLOSED, (), None)


def test_a_join_is_ordered_before_it_is_announced_and_every_order_comes_before_its_announcement() -> None:
    machine = Machine()
    effects = machine.handle(Started())
    assert effects == [member.Join("first join"), AnnounceJoining("first join")]
    assert [isinstance(effect, engine.Order) for effect in effects] == [True, False]


# --- a slow twin -----------------------------------------------------------------------------------


def claimed_by_history(history: list[Event]) -> tuple[TopicPartition, ...]:
    """Return what the newest release left, from all that has happened since the last loss: a slow twin of ``owned``."""
    lost = max((at for at, event in enumerate(history) if isinstance(event, MembershipLost)), default=-1)
    since = history[lost + 1 :]
    for at in reversed(range(len(since))):
        newest = next((event for event in reversed(since[:at]) if isinstance(event, Received)), None)
        release = since[at]
        if newest and isinstance(release, member.TasksReleased) and release.generation in (None, newest.generation):
            return tuple(p for partitions in newest.adopted.active.values() for p in partitions)
    return ()


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_only_released_assignments_are_claimed(seed: int) -> None:
    rng = Random(seed)
    machine = Machine()
    machine.handle(Started())
    history: list[Event] = []
    generation = 0
    for _ in range(200):
        state = machine.engine.state
        choices: list[Event] = [RejoinWanted("again"), Turned(rng.random() < 0.5, rng.random() < 0.5), Tick()]
        if state is State.JOINING:
            generation += 1
            choices += [Received(generation, active(*rng.sample(T, rng.randrange(4))), leads=False)] * 3
        if state is State.PREPARING:
            choices += [member.WorkCommitted()] * 3
        if state in (State.RELEASING, State.STABLE, State.JOINING):
            choices += [member.TasksReleased(rng.choice((generation, generation - 1, None)))] * 3
        choices += [MembershipLost("lost")] if rng.random() < 0.1 else []
        history.append(rng.choice(choices))
        machine.handle(history[-1])
        assert machine.claimed == claimed_by_history(history)
    assert sum(isinstance(event, Received) for event in history) > 5
