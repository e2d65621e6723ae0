"""What is called trouble, at its limits; and counts that lose nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.history.report.trouble import (
    bucketed,
    busiest_hours,
    by_trouble,
    flapping,
    most_within,
    open_probing,
    strip_of,
    warmups_of,
)
from kstreams_assign.history.report.view import (
    CAUSES,
    FLAP_WINDOW_MS,
    LONG_PROBING_MS,
    Bar,
    Generation,
    GroupLine,
    Move,
    Probing,
    Role,
    Span,
)
from kstreams_assign.history.times import DAY_MS, HOUR_MS, MINUTE_MS

LINE = GroupLine("g", 1, 1.0, 0, 0, 0, (), None, 1, None, 0, ())


def generation(number, minutes, cause="probe", *, probing=True, changes=0, due=None):
    return Generation(
        number=number,
        time_ms=round(minutes * MINUTE_MS),
        state="stable",
        cause=cause,
        confidence="certain",
        evidence="",
        leader=None,
        members=1,
        assignor=None,
        joined=(),
        gone=(),
        owner_changes=changes,
        adopted=0,
        probing=probing,
        next_rebalance_ms=None if due is None else due * MINUTE_MS,
        missing=0,
        unreadable=0,
    )


def move(task, time_ms):
    return Move(0, 1, time_ms, task, 0, 1, planned=True, warm=True, held_ms=None, gap_ms=None)


@given(st.lists(st.integers(0, 200), max_size=25), st.integers(0, 80))
def test_the_most_within_a_window_is_what_trying_every_window_finds(times, window):
    tried = [sum(start <= time <= start + window for time in times) for start in times]
    assert most_within(times, window) == max(tried, default=0)


def test_three_moves_within_an_hour_flap_and_a_millisecond_more_between_them_does_not():
    quick = [move("0_1", at) for at in (0, 10, FLAP_WINDOW_MS)]
    slow = [move("0_2", at) for at in (0, 10, FLAP_WINDOW_MS + 1)]
    assert busiest_hours([*quick, *slow]) == {"0_1": 3, "0_2": 2}
    assert flapping([*slow, *quick]) == ("0_1",)


def test_the_worst_flapping_task_comes_first():
    assert flapping([move("0_1", 1)] * 3 + [move("0_2", 1)] * 4) == ("0_2", "0_1")


def test_three_probes_in_a_row_that_move_nothing_never_finish():
    two = [generation(1, 0, "join"), generation(2, 10), generation(3, 20)]
    warmups = open_probing(two, DAY_MS)
    assert (warmups.probes, warmups.idle_probes, warmups.never_finishes) == (2, 2, False)
    warmups = open_probing([*two, generation(4, 30, due=40)], DAY_MS)
    assert warmups == Probing(0, 40 * MINUTE_MS, 3, 3)
    assert warmups.never_finishes


def test_a_probe_that_moves_something_through_its_follow_up_was_not_idle():
    run = [generation(1, 0, "join"), generation(2, 10), generation(3, 20), generation(4, 20.01, "follow_up", changes=1)]
    warmups = open_probing([*run, generation(5, 30)], DAY_MS)
    assert (warmups.probes, warmups.idle_probes, warmups.never_finishes) == (3, 1, False)


def test_probing_for_six_hours_never_finishes_although_it_moves_tasks():
    run = [generation(n, n * 10, changes=2) for n in range(36)]
    assert not open_probing(run, LONG_PROBING_MS).never_finishes
    assert open_probing([*run, generation(36, 360, changes=2)], DAY_MS).never_finishes


def test_probing_lasts_until_the_next_probe_is_due_or_the_history_ends():
    run = [generation(1, 0, due=10)]
    assert open_probing(run, DAY_MS).lasted_ms == 10 * MINUTE_MS
    assert open_probing(run, 4 * MINUTE_MS).lasted_ms == 4 * MINUTE_MS


@pytest.mark.parametrize("last", [False, None])
def test_a_group_is_not_said_to_probe_where_its_last_generation_does_not_tell(last):
    assert open_probing([generation(1, 0), generation(2, 10, probing=last)], DAY_MS) is None


@given(
    st.lists(st.tuples(st.integers(0, 40 * DAY_MS), st.sampled_from(CAUSES)), min_size=1, max_size=40),
    st.integers(0, DAY_MS),
)
def test_no_rebalance_is_lost_in_a_histogram_and_each_stands_in_its_own_bar(events, later):
    events = [(time + later, cause) for time, cause in events]
    span = Span(min(time for time, _ in events), max(time for time, _ in events))
    warmups = bucketed(events, span)
    assert warmups.start_ms % warmups.width_ms == 0
    for cause in CAUSES:
        expected = sorted((time - warmups.start_ms) // warmups.width_ms for time, of in events if of == cause)
        counts = warmups.counts.get(cause, ())
        assert [index for index, count in enumerate(counts) for _ in range(count)] == expected
    assert len(next(iter(warmups.counts.values()))) <= 400
    assert sum(strip_of((time for time, _ in events), span)) == len(events)


@pytest.mark.parametrize(
    ("hours", "width"), [(0, MINUTE_MS), (8, 5 * MINUTE_MS), (9, HOUR_MS), (24 * 15, 6 * HOUR_MS), (24 * 365, DAY_MS)]
)
def test_a_bar_is_an_hour_where_the_history_is_neither_short_nor_long(hours, width):
    assert bucketed([(0, "join")], Span(0, hours * HOUR_MS)).width_ms == width


def test_groups_that_never_finish_probing_come_first_then_the_flapping_then_the_restless():
    stuck = replace(LINE, group="stuck", probing=Probing(0, 5, 3, 3))
    longer = replace(LINE, group="longer", probing=Probing(0, 9, 3, 3))
    moving = replace(LINE, group="moving", probing=Probing(0, 99, 3, 0))
    flaps = replace(LINE, group="flaps", flapping=("0_1",))
    restless = replace(LINE, group="restless", per_hour=9.0)
    ordered = by_trouble([LINE, moving, restless, flaps, stuck, longer])
    assert [line.group for line in ordered] == ["longer", "stuck", "flaps", "restless", "g", "moving"]


def test_a_warm_up_is_handed_over_when_its_task_becomes_active_there_at_once_or_after_a_follow_up():
    at_once = [Bar(0, 1, 1, Role.WARMUP, 0, 0), Bar(0, 0, 1, Role.ACTIVE, 1, 2)]
    withheld = [Bar(1, 1, 1, Role.WARMUP, 0, 0), Bar(1, 1, 1, Role.STANDBY, 1, 1), Bar(1, 0, 1, Role.ACTIVE, 2, 2)]
    kept = [Bar(2, 1, 1, Role.WARMUP, 0, 0), Bar(2, 1, 1, Role.STANDBY, 1, 2)]
    given_up = [Bar(3, 1, 1, Role.WARMUP, 0, 0)]
    under_way = [Bar(4, 1, 1, Role.WARMUP, 1, 2)]
    generations = [generation(1, 0, "join"), generation(2, 10), generation(3, 10.01, "follow_up")]
    warmups = warmups_of([*at_once, *withheld, *kept, *given_up, *under_way], generations, 25 * MINUTE_MS)
    assert [(warmup.outcome, warmup.lasted_ms) for warmup in warmups] == [
        ("handed over", 10 * MINUTE_MS),
        ("handed over", 10 * MINUTE_MS),
        ("kept as standby", 10 * MINUTE_MS),
        ("given up", 10 * MINUTE_MS),
        ("under way", 15 * MINUTE_MS),
    ]


def test_what_becomes_active_only_after_another_probe_was_kept_as_a_standby_first():
    bars = [Bar(0, 1, 1, Role.WARMUP, 0, 0), Bar(0, 1, 1, Role.STANDBY, 1, 1), Bar(0, 0, 1, Role.ACTIVE, 2, 2)]
    (warmups,) = warmups_of(bars, [generation(1, 0), generation(2, 10), generation(3, 20)], DAY_MS)
    assert warmups.outcome == "kept as standby"
