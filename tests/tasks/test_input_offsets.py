"""The offsets of a running task's input, from commit to commit."""

from __future__ import annotations

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.input_offsets import InputOffsets, Passed

A, B, OTHER = (TopicPartition("words", partition) for partition in range(3))


def test_a_commit_takes_what_was_handled_and_a_roll_back_goes_there() -> None:
    offsets = InputOffsets({A: 1, B: 5}, {A: 3})
    assert offsets.done_to() == {A: 3, B: 5}
    assert offsets.take() == {A: 3}
    assert offsets == InputOffsets({A: 3, B: 5})


def test_the_next_commit_has_the_offsets_of_a_deferred_one() -> None:
    offsets = InputOffsets({A: 1, B: 5}, {A: 3})
    offsets.defer({**offsets.take(), OTHER: 9})
    assert offsets == InputOffsets({A: 3, B: 5}, {}, {A: 3}), "another task's offsets are not this one's"
    offsets.handled[B] = 6
    assert offsets.take() == {A: 3, B: 6}


def test_newer_work_replaces_a_deferred_offset() -> None:
    offsets = InputOffsets({A: 3}, {A: 7}, {A: 3})
    assert offsets.take() == {A: 7}
    assert offsets == InputOffsets({A: 7})


def test_offsets_without_records_are_committed_once_all_before_them_is_done() -> None:
    behind = Passed(3, 5)
    offsets = InputOffsets({A: 1, B: 3})
    for partition in (A, B, OTHER):
        offsets.pass_over(partition, behind)
    assert offsets == InputOffsets({A: 1, B: 3}, {}, {B: 5}), "the records of A are not done"
    offsets.handled[A] = 3
    offsets.pass_over(A, behind)
    assert offsets.take() == {A: 5, B: 5}


def test_offsets_without_records_wait_for_work_that_was_put_off() -> None:
    offsets = InputOffsets({A: 1, B: 1}, {A: 2}, {A: 3, B: 3})
    offsets.pass_over(A, Passed(3, 5))
    offsets.pass_over(B, Passed(3, 5))
    assert offsets == InputOffsets({A: 1, B: 1}, {A: 2}, {A: 3, B: 5})


def test_an_offset_in_front_of_what_was_passed_over_is_the_one_behind_it() -> None:
    offsets = InputOffsets({A: 3})
    assert [offsets.lift(A, at) for at in (2, 3, 4, 5, 6)] == [2, 3, 4, 5, 6]
    offsets.pass_over(A, Passed(3, 5))
    assert [offsets.lift(A, at) for at in (2, 3, 4, 5, 6)] == [2, 5, 5, 5, 6]
