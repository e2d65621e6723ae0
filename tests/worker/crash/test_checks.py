"""Each check fails for what it has to detect."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from tests.worker.crash import app
from tests.worker.crash.checks import Left, replayed, wrong_answers, wrong_folders, wrong_state
from tests.worker.crash.points import Point, all_points, busiest_phases, occurrences, point_per_site
from tests.worker.crash.reading import Folder, Line, end_offsets
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


def test_a_complete_result_passes():
    assert wrong_state(WHOLE) + wrong_answers(WHOLE) == []
    assert wrong_state(replace(WHOLE, exact=True)) + wrong_answers(replace(WHOLE, exact=True)) == []


def test_an_input_that_is_not_in_the_state_is_lost():
    (said,) = wrong_state(replace(WHOLE, changelog=CHANGELOG[:-1]))
    assert f"lost: [{COUNT - 1}]" in said


def test_an_input_without_an_answer_is_lost_unless_it_was_seeded():
    (said,) = wrong_answers(replace(WHOLE, answers=ANSWERS[:3] + ANSWERS[4:]))
    assert "lost: [3]" in said
    assert wrong_answers(replace(WHOLE, answers=ANSWERS[4:], seeded=4)) == []


def test_an_input_in_the_state_that_was_never_sent_is_reported():
    (said,) = wrong_state(replace(WHOLE, inputs=INPUTS[:-1]))
    assert f"never were: [{COUNT - 1}]" in said


def test_only_uncommitted_inputs_may_be_applied_again():
    assert wrong_state(applied_again(8)) == []
    (said,) = wrong_state(applied_again(7))
    assert "twice: [7]" in said


def test_exactly_once_no_input_may_be_applied_again():
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
def test_a_store_that_differs_from_its_changelog_is_reported(folder, says):
    (said,) = wrong_folders([folder], CHANGELOG, {0: COUNT})
    assert says in said


def test_an_interrupted_bulk_restore_may_hold_more_than_its_offset_says():
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


def test_a_poll_is_a_point_only_after_it_returned_records():
    seen = {("commit", "a"): 2}
    assert {point.side for point in all_points(seen, frozenset({"a"}))} == {"after"}
    assert {point.side for point in point_per_site(seen, frozenset({"a"}))} == {"after"}


def test_each_site_is_taken_once_in_its_busiest_phase():
    seen = {("restore", "a"): 1, ("commit", "a"): 7, ("close", "b"): 1}
    assert point_per_site(busiest_phases(seen), frozenset()) == [
        Point("commit", "a", 1, "after"),
        Point("close", "b", 1, "before"),
    ]


def test_end_offsets_are_asked_for_again_while_a_partition_gets_a_leader():
    answers = [KafkaError(KafkaError.FENCED_LEADER_EPOCH), None]
    looked = []

    class Admin:
        def list_topics(self, timeout):
            looked.append(timeout)

        def list_offsets(self, asked, **_):
            error, futures = answers.pop(0), {at: Future() for at in asked}
            for at, future in futures.items():
                if error:
                    future.set_exception(KafkaException(error))
                else:
                    future.set_result(ListOffsetsResultInfo(at.partition, 0, 1))
            return futures

    assert end_offsets(Admin(), "topic") == {partition: partition for partition in range(app.PARTITIONS)}
    assert looked
    answers.append(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException, match="AUTHORIZATION"):
        end_offsets(Admin(), "topic")
