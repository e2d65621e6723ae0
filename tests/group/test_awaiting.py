"""Who is awaited, as every member and the next leader know it, through real bytes."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig, Client
from kstreams_assign.group.awaiting import (
    WORTH_WAITING_S,
    SoonRestored,
    count_down,
    read_restarts,
    wait_ends_in_ms,
)
from kstreams_assign.group.dialects import KIP441
from kstreams_assign.group.view import read_group
from kstreams_assign.model import NO_PROBE_MS, UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.wire import AwaitedProcess
from tests.group.little_group import END, LittleGroup, LittleMember, shape

DELAY_MS = AssignConfig().scheduled_rebalance_max_delay_ms
TASKS = frozenset(TaskId(0, partition) for partition in range(3))
FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


def group_of_three(*, standbys: int = 0) -> LittleGroup:
    config = AssignConfig(num_standby_replicas=standbys)
    little = LittleGroup(shape(stateless=True), {"orders": 6, "clicks": 3}, config, "least_movement")
    for number in (1, 2, 3):
        little.add(number)
    little.settle()
    return little


def restart(little: LittleGroup, process: UUID) -> LittleMember:
    """Announce its restart, and take it out of the group."""
    leaving = little.members[process]
    leaving.restarting = True
    little.rebalance()
    leaving.restarting = False
    little.remove(process.int)
    return leaving


def come_back(little: LittleGroup, member: LittleMember) -> None:
    member.adopted = None
    little.members[member.process] = member


@pytest.mark.parametrize("process", [FIRST, THIRD], ids=["the leader", "a follower"])
def test_its_tasks_wait_for_it_and_are_back_whichever_member_leads(process):
    little = group_of_three()
    before = little.owners()
    leaving = restart(little, process)
    assert leaving.adopted.awaited[process].left_ms == DELAY_MS
    assert all(member.adopted.follow_up for member in little.members.values()), "no heartbeat is waited for"
    decision = little.rebalance()
    assert not any(member.adopted.follow_up for member in little.members.values())
    stateful = {task for task, owner in before.items() if owner == process and task.subtopology == 0}
    assert decision.waiting == dict.fromkeys(stateful, process)
    assert decision.wait_ends_ms == little.now_ms + DELAY_MS
    assert little.owners().keys() == before.keys() - stateful, "stateless tasks run elsewhere"
    asking = [m for m in little.members.values() if m.adopted.next_rebalance_ms != NO_PROBE_MS]
    assert [member.adopted.next_rebalance_ms for member in asking] == [decision.wait_ends_ms]
    come_back(little, leaving)
    while little.rebalance().withheld:
        pass
    assert little.owners() == before
    assert not any(member.adopted.awaited for member in little.members.values())


def test_the_wait_grows_shorter_by_the_fastest_clock_and_ends():
    little = group_of_three()
    restart(little, THIRD)
    little.rebalance()
    little.members[FIRST].passed_ms, little.members[SECOND].passed_ms = 20_000, 25_000
    assert little.rebalance().wait_ends_ms == little.now_ms + DELAY_MS - 25_000
    little.members[FIRST].passed_ms = DELAY_MS
    decision = little.rebalance()
    assert (decision.waiting, decision.awaited, decision.wait_ends_ms) == ({}, {}, None)
    assert len(little.owners()) == 9


def test_a_task_with_a_caught_up_replica_runs_there_meanwhile():
    little = group_of_three(standbys=1)
    before = little.owners()
    leaving = restart(little, THIRD)
    decision = little.rebalance()
    assert decision.waiting == {}
    assert decision.awaited.keys() == {THIRD}
    assert little.owners().keys() == before.keys()
    come_back(little, leaving)
    while little.rebalance().withheld:
        pass
    assert little.owners() == before


@pytest.mark.parametrize("records_per_s", [END / WORTH_WAITING_S, END / WORTH_WAITING_S + 1])
def test_what_the_others_restore_in_ten_seconds_does_not_wait_and_comes_back(records_per_s):
    """Two tasks of the third process have state, and two other processes share them."""
    little = group_of_three()
    little.restored_per_s = records_per_s
    before = little.owners()
    leaving = restart(little, THIRD)
    decision = little.rebalance()
    assert decision.awaited.keys() == {THIRD}
    if records_per_s == END / WORTH_WAITING_S:
        assert len(decision.waiting) == 2
    else:
        assert (decision.waiting, little.owners().keys()) == ({}, before.keys())
        assert all(not m.adopted.standby and not m.adopted.warmup for m in little.members.values())
    come_back(little, leaving)
    while little.rebalance().withheld:
        pass
    assert little.owners() == before


def client_with(lag: int) -> Client:
    return Client(FIRST, lags=dict.fromkeys(TASKS, lag))


@pytest.mark.parametrize(
    ("others", "per_s", "soon"),
    [
        ([client_with(END)], END * 3 / WORTH_WAITING_S + 1, True),
        ([client_with(END)], END * 3 / WORTH_WAITING_S, False),
        ([client_with(END)] * 3, END / WORTH_WAITING_S + 1, True),
        ([client_with(END)] * 9, END / WORTH_WAITING_S, False),  # the largest task alone takes so long
        ([client_with(END), client_with(END // 2)], END * 3 / 4 / WORTH_WAITING_S + 1, True),
        ([client_with(END)], None, False),
        ([client_with(END), client_with(UNKNOWN_OFFSET_SUM)], 10 * END, False),
        ([client_with(END), client_with(1_000)], 1, False),  # caught up: not asked about
        ([], END, False),
    ],
)
def test_the_others_share_what_there_is_to_restore(others, per_s, soon):
    assert SoonRestored(1_000, per_s).tasks(TASKS, others) == (TASKS if soon else frozenset())


def test_a_member_that_has_just_started_does_not_end_a_wait():
    little = group_of_three()
    restart(little, THIRD)
    little.add(4)
    assert little.rebalance().awaited.keys() == {THIRD}


def test_a_member_that_knows_better_ends_a_wait():
    """It has the assignment of a generation that the others missed."""
    little = group_of_three()
    restart(little, THIRD)
    little.rebalance()
    little.members[SECOND].passed_ms = DELAY_MS  # it reports that nobody is awaited
    assert little.rebalance().awaited == {}


@pytest.mark.parametrize("process", [FIRST, THIRD], ids=["the leader", "a follower"])
def test_a_member_that_missed_the_announcement_does_not_end_the_wait(process):
    """Those that have the assignment join again at once, so SyncGroup of a slow member may come too late."""
    little = group_of_three()
    little.members[SECOND].misses = True
    restart(little, process)
    assert little.rebalance().awaited.keys() == {process}


def test_a_member_that_missed_the_return_does_not_begin_another_wait():
    little = group_of_three()
    leaving = restart(little, THIRD)
    little.rebalance()
    little.members[SECOND].misses = True
    come_back(little, leaving)
    little.rebalance()
    little.remove(3)
    assert SECOND in {process for process, awaited in reports(little) if THIRD in awaited}
    assert little.rebalance().awaited == {}


def reports(little: LittleGroup):
    """Return whom each member still awaits."""
    return [(member.process, member.adopted.awaited) for member in little.members.values()]


@pytest.mark.parametrize("knows", [True, False])
def test_a_member_that_does_not_report_its_generation_has_to_know_of_the_wait(knows):
    """It is of an earlier release, and may have the newest assignment."""
    little = group_of_three()
    little.members[SECOND].misses = not knows
    restart(little, THIRD)
    little.members[SECOND].generation = None
    assert (little.rebalance().awaited.keys() == {THIRD}) is knows


def test_a_process_without_others_leaves_without_a_wait():
    little = group_of_three()
    for number in (1, 2):
        little.remove(number)
    little.settle()
    little.members[THIRD].restarting = True
    little.rebalance()
    assert (little.members[THIRD].adopted.awaited, little.members[THIRD].adopted.follow_up) == ({}, False)


@pytest.mark.parametrize("end", ["a Java member", "an older leader", "no delay", "the word is missing"])
def test_otherwise_nothing_waits(end):
    little = group_of_three()
    if end == "no delay":
        little.config = AssignConfig(scheduled_rebalance_max_delay_ms=0)
    if end == "a Java member":
        little.members[SECOND].ours = False
    leaving = little.members[THIRD]
    leaving.restarting = end != "the word is missing"
    little.rebalance()
    if end == "an older leader":  # its trailers say nothing of it, and nobody reports anything
        for member in little.members.values():
            member.knows_restarts = False
    else:
        assert (leaving.adopted.awaited, leaving.adopted.follow_up) == ({}, False)
    little.remove(3)
    decision = little.rebalance()
    assert decision.waiting == {}
    assert len(little.owners()) == 9


def test_all_processes_may_restart_at_once():
    little = group_of_three()
    for member in little.members.values():
        member.restarting = True
    little.rebalance()
    assert all(member.adopted.awaited.keys() == little.members.keys() for member in little.members.values())
    for number in (1, 2):
        little.remove(number)
    little.members[THIRD].restarting = False
    assert set(little.rebalance().waiting.values()) == {FIRST, SECOND}
    assert set(little.owners().values()) == {THIRD}


def test_two_announcements_keep_the_time_of_the_first():
    little = group_of_three()
    little.members[THIRD].restarting = True
    little.rebalance()
    for member in little.members.values():
        member.passed_ms = 4_000
    assert little.rebalance().awaited[THIRD].left_ms == DELAY_MS - 4_000
    assert not any(member.adopted.follow_up for member in little.members.values()), "it did not leave at once"


def test_in_the_kips_layout_it_is_the_same():
    little = group_of_three()
    little.dialect = KIP441
    little.settle()
    restart(little, THIRD)
    assert set(little.rebalance().waiting.values()) == {THIRD}


def test_members_that_differ_about_the_tasks_make_those_wait_that_all_name():
    little = group_of_three()
    restart(little, THIRD)
    little.rebalance()
    first, second = little.members[FIRST], little.members[SECOND]
    (awaited,) = second.adopted.awaited.values()
    assert len(awaited.active) > 1
    object.__setattr__(second.adopted, "awaited", {THIRD: AwaitedProcess(9_000, awaited.active[:1])})
    view = read_group([member.joins(little.dialect) for member in (first, second)])
    found = read_restarts(view, DELAY_MS).away[THIRD]
    assert (found.left_ms, found.active) == (9_000, awaited.active[:1])


def test_a_long_join_does_not_prolong_a_wait():
    """A rebalance that waited for a dead member: the reports are old, but the leader knows how old its own is."""
    little = restarted()
    for joined_ago_ms, left_ms in ((0, DELAY_MS), (7_000, DELAY_MS - 7_000), (DELAY_MS, None), (-1, DELAY_MS)):
        assert left_of_the_third(little, FIRST, joined_ago_ms) == left_ms


def test_a_leader_that_reports_more_time_than_another_counts_down_its_own():
    """The other has joined later, so its report is not as old as the leader's."""
    little = restarted()
    little.members[SECOND].passed_ms = 5_000
    assert left_of_the_third(little, FIRST, 5_000) == DELAY_MS - 5_000
    assert left_of_the_third(little, FIRST, 7_000) == DELAY_MS - 7_000


def test_a_long_join_does_not_prolong_a_wait_under_a_leader_that_has_just_joined():
    little = restarted()
    little.members[SECOND].passed_ms = 20_000
    newcomer = little.add(4).process
    for joined_ago_ms, left_ms in ((0, DELAY_MS - 20_000), (10_000, DELAY_MS - 30_000), (DELAY_MS - 20_000, None)):
        assert left_of_the_third(little, newcomer, joined_ago_ms) == left_ms
    assert left_of_the_third(little, FIRST, 10_000) == DELAY_MS - 20_000, "an older member knows it exactly"


def restarted() -> LittleGroup:
    """Return a group in which the third process is awaited, and all others know it."""
    little = group_of_three()
    restart(little, THIRD)
    little.rebalance()
    return little


def left_of_the_third(little: LittleGroup, leader: UUID, joined_ago_ms: int) -> int | None:
    view = read_group([member.joins(little.dialect) for member in little.members.values()])
    away = read_restarts(view, DELAY_MS, leader, joined_ago_ms).away
    return away[THIRD].left_ms if away else None


def test_a_countdown_never_gains_time():
    awaited = {THIRD: AwaitedProcess(1_000)}
    assert count_down(awaited, -5) == awaited
    assert count_down(awaited, 999)[THIRD].left_ms == 1
    assert count_down(awaited, 1_000) == {}
    assert wait_ends_in_ms({}) is None
