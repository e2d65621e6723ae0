"""What the membership asks, as ``poll`` returns it: revoked tasks, the number that ``let_go`` answers, and losses."""

from __future__ import annotations

import threading

from kstreams_assign import Assignment, CommitDue, Drained, Lost, TaskId, TopicPartition
from kstreams_assign.group.values import Adopted
from kstreams_assign.worker.group_member import Questions

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
NONE: frozenset[TaskId] = frozenset()


def of(*tasks: TaskId, standby: frozenset[TaskId] = NONE, warmup: frozenset[TaskId] = NONE) -> Adopted:
    return Adopted({task: (TopicPartition("words", task.partition),) for task in tasks}, standby, warmup)


def test_an_assignment_names_what_the_one_before_had_and_it_has_not() -> None:
    questions = Questions()
    questions.adopt(1, of(FIRST))
    questions.adopt(2, of(SECOND, standby=frozenset({FIRST})))
    inputs = {SECOND: (TopicPartition("words", 1),)}
    assert questions.next(0) == Assignment(1, {FIRST: (TopicPartition("words", 0),)}, NONE, NONE, NONE)
    assert questions.next(0) == Assignment(2, inputs, frozenset({FIRST}), NONE, frozenset({FIRST}))


def test_an_answer_is_for_the_assignment_that_the_program_took_last() -> None:
    questions = Questions()
    assert questions.generation is None
    questions.adopt(0, of(warmup=frozenset({FIRST})))
    questions.adopt(1, of(FIRST))
    questions.put(Drained())
    assert questions.generation is None, "the program has taken none"
    questions.next(0)
    assert questions.generation == 0, "the newer one is not taken yet"
    questions.next(0)
    assert questions.next(0) == Drained()
    assert questions.generation == 1


def test_tasks_count_as_dropped_when_the_program_asks_for_the_event_after_the_loss() -> None:
    dropped: list[str] = []
    questions = Questions()
    questions.adopt(1, of(FIRST))
    questions.drop_all("fenced", lambda: dropped.append("all"))
    questions.adopt(2, of(FIRST))
    questions.next(0)
    assert questions.next(0) == Lost("fenced")
    assert not dropped, "the program is about to drop them"
    event = questions.next(0)
    assert dropped == ["all"]
    assert isinstance(event, Assignment)
    assert event.revoked == NONE, "a loss is no hand-over"
    questions.next(0)
    assert dropped == ["all"]


def test_a_loss_in_a_classic_group_needs_no_answer() -> None:
    questions = Questions()
    questions.commit_now()
    questions.drop_all("fenced")
    assert questions.next(0) == CommitDue()
    assert questions.next(0) == Lost("fenced")
    assert questions.next(0) is None


def test_none_wakes_a_program_that_waits() -> None:
    questions = Questions()
    waiting = threading.Thread(target=questions.next, args=(60,))
    waiting.start()
    questions.put(None)
    waiting.join(30)
    assert not waiting.is_alive()
