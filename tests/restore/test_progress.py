"""Progress of one task, as arithmetic: where it begins, when it is done, how long it still takes."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.progress import (
    PACE_WINDOW_MS,
    RATE_MS,
    RATE_OFFSETS,
    RATE_SPAN_MS,
    Beginning,
    RestoreRate,
    TaskProgress,
    beginning,
    standbys_wait,
)

A, B = TopicPartition("app-a-changelog", 0), TopicPartition("app-b-changelog", 0)

offsets = st.integers(0, 1_000_000)


def begun(at: int, end: int, now_ms: int = 0) -> TaskProgress:
    return TaskProgress.begin({A: at}, {A: end}, now_ms)


def obvious_beginning(stored, first, end):
    """The slow twin: is every record between the store and the end still there to be read?"""
    if stored in {None, 0}:
        return Beginning.FRESH
    readable = set(range(first, end + 1))
    if stored in readable:
        return Beginning.CONTINUE
    return Beginning.OVERTAKEN if stored < min(readable) else Beginning.AHEAD


def test_every_small_case_begins_as_the_obvious_twin_says():
    for first, size, stored in product(range(4), range(4), [None, *range(9)]):
        assert beginning(stored, first, first + size) is obvious_beginning(stored, first, first + size)


def test_only_a_store_that_cannot_go_on_is_wiped():
    assert {how for how in Beginning if not how.wipes} == {Beginning.FRESH, Beginning.CONTINUE}


def test_an_offset_of_another_topic_and_data_without_an_offset_are_no_place_to_go_on_from():
    assert beginning(5, 0, 9, replaced=True) is Beginning.REPLACED
    assert beginning(None, 0, 9, data=True) is Beginning.ORPHANED
    assert beginning(None, 0, 9, replaced=True) is Beginning.FRESH


def test_done_needs_every_partition_at_its_end_and_gaps_count_as_read():
    progress = TaskProgress.begin({A: 0, B: 0}, {A: 10, B: 20}, 0)
    progress = progress.advanced(A, 10, 1)
    assert not progress.done
    assert (progress.position_sum, progress.end_sum, progress.remaining) == (10, 30, 20)
    assert progress.advanced(B, 25, 2).done  # past the end as looked up: the log went on
    assert progress.advanced(B, 25, 2).remaining == 0


def test_a_task_without_changelogs_is_done_at_once():
    assert TaskProgress.begin({}, {}, 0).done


def test_a_position_never_goes_back():
    progress = begun(0, 100).advanced(A, 50, 1)
    assert progress.advanced(A, 40, 2) == progress


def test_an_end_that_moves_on_undoes_done_and_others_keep_theirs():
    progress = TaskProgress.begin({A: 10, B: 5}, {A: 10, B: 5}, 0).extended({A: 12}, 1)
    assert not progress.done
    assert progress.partitions[B].end == 5


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 1_000)), max_size=40))
def test_pace_equals_the_slow_count_over_the_window(moves):
    """The twin keeps every moment; marks are thinned, but reach as far back to within one spacing and one gap."""
    progress, now_ms, at = begun(0, 10**9), 0, 0
    history = [(0, 0)]
    for passed_ms, records in moves:
        now_ms, at = now_ms + passed_ms, at + records
        progress = progress.advanced(A, at, now_ms)
        if history[-1][1] != at:
            history.append((now_ms, at))
    last_ms = history[-1][0]
    inside = [(ms, position) for ms, position in history if ms >= last_ms - PACE_WINDOW_MS]
    oldest = progress.marks[0]
    assert (oldest.at_ms, oldest.position) in inside or len(inside) == 1
    gaps_ms = [later[0] - earlier[0] for earlier, later in pairwise(inside)]
    assert oldest.at_ms <= inside[0][0] + 1_000 + max(gaps_ms, default=0)
    if last_ms > oldest.at_ms:
        assert progress.offsets_per_s == pytest.approx((at - oldest.position) * 1000 / (last_ms - oldest.at_ms))
    else:
        assert progress.offsets_per_s is None


@settings(deadline=None)
@given(rate=st.integers(1, 1_000), seconds=st.integers(2, 60), left=st.integers(1, 10**6))
def test_time_left_at_a_steady_rate_is_what_remains_divided_by_it(rate, seconds, left):
    progress = begun(0, rate * seconds + left)
    for second in range(1, seconds + 1):
        progress = progress.advanced(A, rate * second, second * 1_000)
    assert progress.offsets_per_s == pytest.approx(rate)
    assert progress.left_ms == pytest.approx(left * 1000 / rate, abs=1)


def test_a_standby_that_reads_as_fast_as_its_changelog_grows_never_arrives():
    progress = begun(0, 1_000)
    for second in range(1, 5):
        progress = progress.advanced(A, 100 * second, second * 1_000).extended(
            {A: 1_000 + 100 * second}, second * 1_000
        )
    assert progress.offsets_per_s == pytest.approx(100)
    assert progress.left_ms is None


def test_a_pause_does_not_colour_the_pace_after_it():
    progress = begun(0, 10_000).advanced(A, 1_000, 1_000)
    resumed_ms = 1_000 + 3_600_000
    progress = progress.advanced(A, 1_100, resumed_ms).advanced(A, 1_600, resumed_ms + 1_000)
    assert progress.offsets_per_s == pytest.approx(500)


@settings(deadline=None)
@given(st.lists(st.integers(0, 100_000), min_size=120, max_size=120))
def test_marks_stay_few_however_often_a_task_moves(steps):
    progress, now_ms = begun(0, 10**9), 0
    for number, step in enumerate(steps):
        now_ms += step // 100
        progress = progress.advanced(A, number + 1, now_ms)
    assert len(progress.marks) <= PACE_WINDOW_MS // 1_000 + 2


def test_standbys_wait_while_active_tasks_have_more_than_the_budget_to_read():
    assert standbys_wait([begun(0, 60), begun(0, 41)], 100, 3_000, 10)
    assert not standbys_wait([begun(0, 60), begun(0, 40)], 100, 3_000, 10)
    assert not standbys_wait([], 0, 3_000, 10)


def test_a_stuck_active_task_holds_up_no_other():
    stuck = begun(0, 1_000)
    assert standbys_wait([stuck], 100, 3_000, 2_999)
    assert not standbys_wait([stuck], 100, 3_000, 3_000)
    assert standbys_wait([stuck.advanced(A, 1, 2_500)], 100, 3_000, 3_000)


def rate_after(*notes: tuple[int, int, bool]) -> float | None:
    """The rate after these: offsets read, the time in milliseconds, whether there is more to read."""
    rate = RestoreRate()
    for read, now_ms, behind in notes:
        rate.count(read)
        rate.note(now_ms, behind=behind)
    return rate.offsets_per_s


def test_a_rate_is_that_of_a_restore_from_its_beginning():
    begun_and_half = (999_999, 5_000, True), (RATE_OFFSETS, 5_000 + RATE_MS // 2, True)
    assert rate_after(*begun_and_half) is None
    assert rate_after(*begun_and_half, (RATE_OFFSETS, 5_000 + RATE_MS, False)) == 2 * RATE_OFFSETS * 1000 / RATE_MS


def test_few_offsets_are_measured_over_a_longer_time():
    some = RATE_OFFSETS // 2
    first, second, third = (some, RATE_MS, True), (some - 1, 2 * RATE_MS, True), (1, 4 * RATE_MS, False)
    assert rate_after((0, 0, True), first, second) is None
    assert rate_after((0, 0, True), first, second, third) == 2 * some * 1000 / (4 * RATE_MS)


def test_the_fastest_span_of_a_long_restore_counts():
    def rate_of(first: int, second: int) -> float | None:
        return rate_after((0, 0, True), (first, RATE_SPAN_MS, True), (second, 2 * RATE_SPAN_MS, False))

    assert rate_of(5 * RATE_OFFSETS, RATE_OFFSETS) == 5 * RATE_OFFSETS * 1000 / RATE_SPAN_MS
    assert rate_of(RATE_OFFSETS, 5 * RATE_OFFSETS) == 5 * RATE_OFFSETS * 1000 / RATE_SPAN_MS


def test_what_comes_at_once_after_a_wait_for_a_quota_is_not_taken_for_the_rate():
    """A client may read 5,000 offsets a second, but gets 20,000 within a second every four."""
    ends_ms = 20_000
    steps = [(10_000 * (at_ms % 4_000 <= 1_000), at_ms, at_ms < ends_ms) for at_ms in range(0, ends_ms + 1, 1_000)]
    assert rate_after(*steps) == 5_000


def test_what_replicas_read_at_the_ends_of_their_changelogs_is_no_restore():
    notes = [(RATE_OFFSETS, at_ms, at_ms % RATE_MS != 0) for at_ms in range(0, 20 * RATE_MS, RATE_MS // 2)]
    assert rate_after(*notes) is None
