"""The checks can fail: each is shown what it has to find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worker.crash import app
from tests.worker.crash.checks import Left, replayed, wrong_answers, wrong_folders, wrong_state
from tests.worker.crash.points import Point, all_points, busiest_phases, occurrences, point_per_site
from tests.worker.crash.reading import Folder, Line
from tests.worker.crash.stage import changelog_of

COUNT = 12
INPUTS = [Line(0, offset, app.key_of(offset), b"") for offset in range(COUNT)]
CHANGELOG = [Line(0, offset, *entry) for offset, entry in enumerate(changelog_of(COUNT))]
ANSWERS = [Line(0, offset, app.key_of(offset), app.answer_to(0, offset)) for offset in range(COUNT)]
WHOLE = Left(INPUTS, CHANGELOG, ANSWERS, committed={0: 8}, seeded=0, exact=False)


def applied_again(offset: int) -> Left:
    key = app.key_of(offset)
    value = app.applied_to(replayed(CHANGELOG, 0)[key], offset)
    return replace(WHOLE, changelog=[*CHANGELOG, Line(0, COUNT, key, value)])


def test_what_is_whole_has_nothing_wrong():
    assert wrong_state(WHOLE) + wrong_answers(WHOLE) == []
    assert wrong_state(replace(WHOLE, exact=True)) + wrong_answers(replace(WHOLE, exact=True)) == []


def test_an_input_that_is_not_in_the_state_is_lost():
    (said,) = wrong_state(replace(WHOLE, changelog=CHANGELOG[:-1]))
    assert f"lost: [{COUNT - 1}]" in said


def test_an_input_without_an_answer_is_lost_but_for_those_of_before():
    (said,) = wrong_answers(replace(WHOLE, answers=ANSWERS[:3] + ANSWERS[4:]))
    assert "lost: [3]" in said
    assert wrong_answers(replace(WHOLE, answers=ANSWERS[4:], seeded=4)) == []


def test_an_input_in_the_state_that_nobody_sent_is_told():
    (said,) = wrong_state(replace(WHOLE, inputs=INPUTS[:-1]))
    assert f"never were: [{COUNT - 1}]" in said


def test_what_was_not_committed_may_be_applied_again_and_what_was_may_not():
    assert wrong_state(applied_again(8)) == []
    (said,) = wrong_state(applied_again(7))
    assert "twice: [7]" in said


def test_exactly_once_nothing_may_be_applied_again():
    (said,) = wrong_state(replace(applied_again(8), exact=True))
    assert "twice: [8]" in said
    (said,) = wrong_answers(replace(WHOLE, answers=[*ANSWERS, ANSWERS[9]], exact=True))
    assert "twice: [9]" in said


def test_a_store_may_lag_behind_its_changelog():
    assert wrong_folders([Folder("f", 0, 7, replayed(CHANGELOG, 0, 7))], CHANGELOG, {0: COUNT}) == []
    assert wrong_folders([Folder("f", 0, None, {})], CHANGELOG, {0: COUNT}) == []


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        (Folder("f", 0, COUNT + 1, replayed(CHANGELOG, 0)), "ahead"),
        (Folder("f", 0, 7, replayed(CHANGELOG, 0, 8)), "holds"),
        (Folder("f", 0, 7, replayed(CHANGELOG, 0, 6)), "holds"),
        (Folder("f", 0, None, {b"key": b"1"}), "no offset"),
    ],
    ids=["ahead", "newer-than-it-says", "older-than-it-says", "says-nothing"],
)
def test_a_store_that_is_not_its_changelog_is_found(folder, says):
    (said,) = wrong_folders([folder], CHANGELOG, {0: COUNT})
    assert says in said


def test_a_restore_in_bulk_that_was_cut_off_may_hold_more_than_it_says_but_nothing_else():
    newer = Folder("f", 0, 7, replayed(CHANGELOG, 0, 9))
    assert wrong_folders([newer], CHANGELOG, {0: COUNT}, in_bulk=True) == []
    assert wrong_folders([newer._replace(offset=None)], CHANGELOG, {0: COUNT}, in_bulk=True) == []
    (said,) = wrong_folders([newer._replace(entries=replayed(CHANGELOG, 0, 6))], CHANGELOG, {0: COUNT}, in_bulk=True)
    assert "holds" in said
    (said,) = wrong_folders([newer._replace(offset=COUNT + 1)], CHANGELOG, {0: COUNT}, in_bulk=True)
    assert "ahead" in said


def test_a_point_stands_for_each_class_of_occurrence_on_both_sides():
    assert occurrences(1) == [1]
    assert occurrences(100) == [1, 2, 50, 75]
    assert len(all_points({("commit", "a"): 100, ("commit", "b"): 1}, frozenset())) == 10


def test_what_only_counts_once_it_brought_something_is_died_at_afterwards():
    seen = {("commit", "a"): 2}
    assert {point.side for point in all_points(seen, frozenset({"a"}))} == {"after"}
    assert {point.side for point in point_per_site(seen, frozenset({"a"}))} == {"after"}


def test_each_site_is_taken_once_where_it_is_called_most():
    seen = {("restore", "a"): 1, ("commit", "a"): 7, ("close", "b"): 1}
    assert point_per_site(busiest_phases(seen), frozenset()) == [
        Point("commit", "a", 1, "after"),
        Point("close", "b", 1, "before"),
    ]
