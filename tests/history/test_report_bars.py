"""Bars say exactly what the copies of each generation said, and none hides another."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.history.report.bars import Copy, in_lanes, lanes_of, merged
from kstreams_assign.history.report.view import Bar, Role

copies = st.builds(
    Copy,
    task=st.integers(0, 3),
    process=st.integers(0, 3),
    generation=st.integers(0, 9),
    role=st.sampled_from(Role),
    lag=st.none() | st.integers(0, 99),
)
histories = st.lists(copies, max_size=60, unique_by=lambda copy: (copy.task, copy.process, copy.generation))


@given(histories)
def test_bars_taken_apart_are_the_copies_they_were_made_of(history):
    apart = {
        Copy(bar.task, bar.process, generation, bar.role, dict(bar.lags).get(generation))
        for bar in merged(history)
        for generation in range(bar.first, bar.last + 1)
    }
    assert apart == set(history)


@given(histories)
def test_no_two_bars_could_have_been_one(history):
    bars = sorted(merged(history), key=lambda bar: (bar.task, bar.process, bar.first))
    for before, after in pairwise(bars):
        same = (before.task, before.process, before.role) == (after.task, after.process, after.role)
        assert not (same and before.last + 1 == after.first)


@given(histories)
def test_no_bar_lies_over_another_of_its_row(history):
    cells = Counter(
        (bar.task, bar.lane, generation)
        for bar in in_lanes(merged(history))
        for generation in range(bar.first, bar.last + 1)
    )
    assert [cell for cell, count in cells.items() if count > 1] == []


@given(histories)
def test_copies_that_are_not_active_keep_out_of_the_first_lane_and_take_no_more_lanes_than_there_are_copies(history):
    bars = in_lanes(merged(history))
    assert [bar for bar in bars if bar.lane == 0 and bar.role is not Role.ACTIVE] == []
    at_once = Counter((copy.task, copy.generation) for copy in history)
    for task, lanes in enumerate(lanes_of(bars, 4)):
        assert lanes <= 1 + max((count for (of, _), count in at_once.items() if of == task), default=0)


def test_two_owners_of_one_task_at_a_time_are_both_seen():
    bars = in_lanes(merged([Copy(0, 0, 1, Role.ACTIVE), Copy(0, 1, 1, Role.ACTIVE)]))
    assert [bar.lane for bar in bars] == [0, 1]


def test_a_task_that_is_handed_over_stays_in_the_first_lane():
    history = [Copy(0, 0, 0, Role.ACTIVE), Copy(0, 1, 0, Role.WARMUP), Copy(0, 1, 1, Role.ACTIVE, 7)]
    assert in_lanes(merged(history)) == [
        Bar(0, 0, 0, Role.ACTIVE, 0, 0),
        Bar(0, 1, 1, Role.WARMUP, 0, 0),
        Bar(0, 0, 1, Role.ACTIVE, 1, 1, ((1, 7),)),
    ]
