"""The offsets of a running task's input, from commit to commit."""

from __future__ import annotations

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.input_offsets import InputOffsets

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
