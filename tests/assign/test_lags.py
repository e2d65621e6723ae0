"""Offset sums to lags, as the Java leader computes them, and KIP-441's rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import TaskLags, compute_lag, find_previous_tasks, is_caught_up, rank, sort_by_lag
from kstreams_assign.assign.java_order import task_order
from kstreams_assign.assign.lags import UNBOUNDED_LAG
from kstreams_assign.model import TaskId

T0, T1, T2, T3 = (TaskId(0, partition) for partition in range(4))

tasks = st.builds(TaskId, st.integers(0, 2), st.integers(0, 3), st.sampled_from([None, "a", "b"]))
sums = st.dictionaries(tasks, st.integers(-4, 12) | st.integers(-(2**63), 2**63 - 1), max_size=20)
ends = st.dictionaries(tasks, st.integers(0, 10) | st.integers(0, 2**63 - 1), max_size=20)


@pytest.mark.parametrize(
    ("end", "reported", "lag"),
    [
        (100, -2, -2),  # running here
        (100, -3, -3),  # position unknown
        (100, None, 100),  # no state here
        (100, 0, 100),
        (100, 40, 60),
        (100, 100, 0),
        (100, 101, 100),  # more than there is: damaged
        (0, None, 0),  # a store without a changelog
    ],
)
def test_a_reported_sum_becomes_the_lag_that_java_computes(end, reported, lag):
    assert compute_lag(end, reported) == lag


@pytest.mark.parametrize(
    ("lag", "acceptable", "expected"),
    [(0, 10, 0), (10, 10, 0), (11, 10, 11), (-2, 10, 0), (-3, 10, 0), (1, 0, 1), (0, 0, 0)],
)
def test_rank_is_zero_up_to_the_acceptable_lag_and_the_lag_above(lag, acceptable, expected):
    assert rank(lag, acceptable) == expected


def test_running_is_caught_up_and_unknown_is_not_unless_every_lag_is_acceptable():
    assert is_caught_up(-2, 0)
    assert not is_caught_up(-3, 10_000)
    assert is_caught_up(-3, UNBOUNDED_LAG)
    assert is_caught_up(10_000, 10_000)
    assert not is_caught_up(10_001, 10_000)


def test_sparse_lags_read_like_a_full_mapping():
    lags = TaskLags({T0: 10, T1: 20, T2: 30}, {T0: -2, T1: 5, T3: 7})
    assert dict(lags) == {T0: -2, T1: 15, T2: 30}
    assert T3 not in lags
    assert len(lags) == 3


def test_running_or_owned_tasks_are_active_and_other_reported_tasks_are_standby():
    active, standby = find_previous_tasks([T3], {T0: -2, T1: 5, T2: -3})
    assert active == {T0, T3}
    assert standby == {T1, T2}


def test_tasks_by_lag_omit_tasks_without_a_lag_and_break_ties_by_task():
    assert sort_by_lag([T3, T2, T1, T0, T0], {T0: 5, T1: -2, T2: 5}) == [T1, T0, T2]


@given(ends, sums)
def test_lags_equal_a_call_for_each_task(end_offset_sums, reported):
    lags = TaskLags(end_offset_sums, reported)
    assert dict(lags) == {task: compute_lag(end, reported.get(task)) for task, end in end_offset_sums.items()}
    assert lags.reported.keys() == reported.keys() & end_offset_sums.keys()
    assert all((task in lags) == (task in end_offset_sums) for task in reported)


@given(ends, sums)
def test_reported_lags_equal_the_full_mapping(end_offset_sums, reported):
    lags = TaskLags.of_lags(end_offset_sums, reported)
    assert dict(lags) == {task: reported.get(task, end) for task, end in end_offset_sums.items()}
    assert lags.reported.keys() == reported.keys() & end_offset_sums.keys()


@given(st.lists(tasks, max_size=20), ends, sums)
def test_tasks_by_lag_equal_a_sort_by_both_keys(tasks, end_offset_sums, reported):
    lags = TaskLags(end_offset_sums, reported)
    plain = sorted({task for task in tasks if task in lags}, key=lambda task: (lags[task], task_order(task)))
    assert sort_by_lag(tasks, lags) == plain
