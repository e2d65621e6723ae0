"""``balance_by``: reports that noise does not change, and a leader that uses them where all members agree."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.group.loads import (
    LEAST_CHANGES,
    explain_balance_ignored,
    explain_new_loads,
    has_changed,
    settle_load,
    settle_loads,
)
from kstreams_assign.model import TaskId
from tests.group.little_group import LittleGroup, shape

T = [TaskId(0, partition) for partition in range(8)]
RATE = "input_rate"


def group(members: int, loads: dict[int, int], tasks: int = 8, balance_by: str = RATE, **settings) -> LittleGroup:
    little = LittleGroup(shape(), {"orders": tasks}, AssignConfig(balance_by=balance_by, **settings), "least_movement")
    for number in range(1, members + 1):
        join(little, number, loads, balance_by)
    return little


def join(little, number, loads, balance_by=RATE):
    member = little.add(number)
    member.balance_by, member.loads = balance_by, {T[partition]: load for partition, load in loads.items()}
    return member


def owned(little: LittleGroup) -> list[list[int]]:
    return [sorted(task.partition for task in member.running) for member in little.members.values()]


HEAVY = {0: 1000, **dict.fromkeys(range(1, 8), 10)}


def test_the_leader_balances_by_what_members_report_and_passes_the_loads_on():
    little = group(2, HEAVY)
    little.rebalance()
    assert [len(tasks) for tasks in owned(little)] == [4, 4], "no load is known at first"
    little.settle()
    assert sorted(owned(little), key=len) == [[0], [1, 2, 3, 4, 5, 6, 7]]
    for member in little.members.values():
        assert member.adopted.loads == {T[partition]: load for partition, load in HEAVY.items()}
    assert little.decision.warnings == ()
    assert little.decision.assignor == "least_movement"


def test_a_group_at_rest_stays_at_rest():
    little = group(2, HEAVY)
    little.settle()
    little.settle()
    before = owned(little)
    for _ in range(3):
        decision = little.rebalance()
        assert (decision.changed, decision.next_probe_ms, owned(little)) == ({}, None, before)


def test_the_load_of_a_task_whose_process_is_lost_is_remembered_by_the_leader():
    little = group(3, HEAVY)
    little.settle()
    little.settle()
    (loaded,) = [process for process, member in little.members.items() if member.running == {T[0]}]
    little.remove(loaded.int)
    for member in little.members.values():
        member.loads.pop(T[0])  # its new owner has not measured it yet
    little.settle()
    assert sorted(owned(little), key=len) == [[0], [1, 2, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize("other", ["tasks", "state_size"])
def test_loads_are_ignored_with_a_warning_where_members_have_another_setting(other):
    little = group(2, HEAVY)
    join(little, 3, HEAVY, other)
    little.settle()
    assert sorted(map(len, owned(little))) == [2, 3, 3]
    assert [w for w in little.decision.warnings if "balance_by = input_rate is ignored" in w and "member-3" in w]
    little.members[UUID(int=3)].balance_by = RATE
    little.settle()
    assert [0] in owned(little)
    assert not [w for w in little.decision.warnings if "balance_by" in w]


def test_loads_are_ignored_with_a_warning_where_a_java_member_is_present():
    """Then the decision is Java's, as without the setting."""
    with_setting, without = group(2, HEAVY), group(2, HEAVY, balance_by="tasks")
    for little in (with_setting, without):
        little.add(3).ours = False
        little.settle()
    assert owned(with_setting) == owned(without)
    assert [w for w in with_setting.decision.warnings if "member-3 are not Python members" in w and RATE in w]
    assert not [w for w in without.decision.warnings if "balance_by" in w]
    assert all(not member.adopted.loads for member in with_setting.members.values())


def test_with_tasks_reported_loads_change_nothing():
    little = group(2, HEAVY, balance_by="tasks")
    little.settle()
    assert sorted(map(len, owned(little))) == [4, 4]
    assert all(not member.adopted.loads for member in little.members.values())


@given(st.integers(0, 10**12), st.sampled_from(sorted(LEAST_CHANGES)), st.data())
def test_a_measure_within_5_percent_of_its_mean_never_changes_the_report(mean, balance_by, data):
    noise = st.integers(-(mean * 5 // 100), mean * 5 // 100)
    first = settle_load(None, mean + data.draw(noise), balance_by)
    for _ in range(5):
        assert settle_load(first, mean + data.draw(noise), balance_by) == first


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.sampled_from(sorted(LEAST_CHANGES)))
def test_a_report_is_within_a_fifth_of_the_measure_or_within_the_least_change(known, measured, balance_by):
    settled = settle_load(known, measured, balance_by)
    assert settled == known or len(str(settled).rstrip("0")) <= 2
    assert not has_changed(settled, measured, balance_by) or abs(settled - measured) <= measured // 20


def test_tasks_without_a_measure_keep_their_load():
    assert settle_loads({T[0]: 5000, T[1]: 7}, {T[1]: 4321, T[2]: 20_000}, RATE) == {
        T[0]: 5000,
        T[1]: 4300,
        T[2]: 20_000,
    }


def test_a_member_asks_for_a_new_task_and_for_a_changed_sum_alone():
    reported = {T[0]: 1000, T[1]: 1000}
    assert explain_new_loads(reported, {T[0]: 1900, T[1]: 100}, RATE) is None
    assert explain_new_loads(reported, {}, RATE) is None
    assert explain_new_loads(reported, {T[0]: 3000}, RATE) == (
        "balance_by = input_rate: the tasks of this process have 3,000 records a minute, not 1,000"
    )
    assert explain_new_loads({}, {T[1]: 5}, RATE) == "balance_by = input_rate: the load of 0_1 is known now"


@pytest.mark.parametrize(
    ("decided", "balance_by", "said"),
    [
        ("least_movement", RATE, None),
        ("fallback_prior", RATE, None),
        (None, "tasks", None),
        (None, RATE, "the leader is not a Python member"),
        ("high_availability", RATE, "the leader uses assignor high_availability"),
    ],
)
def test_a_follower_reports_that_its_setting_is_ignored(decided, balance_by, said):
    explanation = explain_balance_ignored(decided, balance_by)
    assert (explanation is None) if said is None else (said in explanation)


def test_the_default_leaves_the_digest_of_settings_as_it_was_in_earlier_releases():
    """Otherwise a rolling upgrade would warn of different settings."""
    assert settings_digest("least_movement", AssignConfig()) == "54f9d93cf725f571"
    assert settings_digest("least_movement", AssignConfig(balance_by=RATE)) != "54f9d93cf725f571"
