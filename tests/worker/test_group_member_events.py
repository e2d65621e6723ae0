"""What the membership asks, as ``poll`` returns it: revoked tasks, the number that ``let_go`` answers, and losses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from kstreams_assign import Assignment, CommitDue, CommitRefused, Drained, GroupMember, Lost, TaskId, TopicPartition
from kstreams_assign.group.member import TasksReleased
from kstreams_assign.group.values import Adopted, MemberId
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


class Joined:
    """A membership that the group has; ``while_asked`` happens during the look at it."""

    def __init__(self) -> None:
        self.committed: list[Mapping[TopicPartition, int]] = []
        self.released: list[int | None] = []
        self.while_asked: Callable[[], None] = lambda: None

    def commit(self, offsets: Mapping[TopicPartition, int], _timeout_s: float, _metadata: object) -> None:
        self.committed.append(offsets)

    def handle(self, event: TasksReleased) -> None:
        self.released.append(event.generation)

    def member(self) -> MemberId:
        self.while_asked()
        return MemberId(8, "joined again", None)


@pytest.fixture
def membership() -> Joined:
    return Joined()


@pytest.fixture
def member(membership: Joined) -> GroupMember:
    """A member whose membership is the test's."""
    member = GroupMember.__new__(GroupMember)
    member._config = SimpleNamespace(application_id="app")  # type: ignore[assignment]
    member._membership = membership  # type: ignore[assignment]
    member._questions, member._failure = Questions(), None
    return member


def revoked(member: GroupMember) -> frozenset[TaskId]:
    """Take the next event, an assignment, and return what it revokes."""
    event = member.poll(0)
    assert isinstance(event, Assignment)
    return event.revoked


def test_revoked_tasks_are_repeated_until_they_are_let_go(member: GroupMember, membership: Joined) -> None:
    """A program that sees none revoked answers at once, and the coordinator gives away what it still writes."""
    questions = member._questions
    questions.adopt(1, of(FIRST, SECOND))
    assert revoked(member) == NONE
    member.let_go()
    questions.adopt(2, of(FIRST))
    questions.adopt(2, of(FIRST, warmup=frozenset({TaskId(0, 2)})))
    assert revoked(member) == frozenset({SECOND})
    assert revoked(member) == frozenset({SECOND}), "the same assignment with a warm-up"
    member.let_go()
    questions.adopt(2, of(FIRST))
    assert revoked(member) == NONE
    assert membership.released == [1, 2]


def test_a_revoked_task_that_comes_back_before_it_is_let_go_is_not_revoked(member: GroupMember) -> None:
    for number, tasks in enumerate(([FIRST, SECOND], [FIRST], [SECOND]), 1):
        member._questions.adopt(number, of(*tasks))
    assert [revoked(member) for _ in range(3)] == [NONE, frozenset({SECOND}), frozenset({FIRST})]


def test_a_batch_of_a_lost_membership_does_not_count_in_the_next(member: GroupMember, membership: Joined) -> None:
    """A member of a classic group joins again at once: the program may still be at work on a batch."""
    batch = {TopicPartition("words", 0): 5}
    questions = member._questions
    questions.commit_now()
    assert member.poll(0) == CommitDue()
    questions.drop_all("UNKNOWN_MEMBER_ID")
    questions.adopt(8, of(FIRST))
    refused: list[str] = []

    def try_both() -> None:
        for answer in (lambda: member.commit(batch), member.group_metadata):
            with pytest.raises(CommitRefused, match="drop all tasks when poll returns Lost") as raised:
                answer()
            refused.append(str(raised.value))

    try_both()
    assert member.poll(0) == Lost("UNKNOWN_MEMBER_ID")
    try_both()
    assert (membership.committed, len(refused)) == ([], 4)
    assert isinstance(member.poll(0), Assignment)
    member.commit(batch)
    assert membership.committed == [batch]
    assert b"joined again" in member.group_metadata()


def test_each_loss_is_to_be_dealt_with(member: GroupMember, membership: Joined) -> None:
    for _ in range(2):
        member._questions.drop_all("UNKNOWN_MEMBER_ID")
    assert isinstance(member.poll(0), Lost)
    assert isinstance(member.poll(0), Lost)
    with pytest.raises(CommitRefused):
        member.commit({})
    assert member.poll(0) is None
    member.commit({})
    assert membership.committed == [{}]


def test_metadata_of_a_membership_that_begins_during_the_look_at_it_is_refused(
    member: GroupMember, membership: Joined
) -> None:
    membership.while_asked = lambda: member._questions.drop_all("UNKNOWN_MEMBER_ID")
    with pytest.raises(CommitRefused):
        member.group_metadata()


def test_none_wakes_a_program_that_waits() -> None:
    questions = Questions()
    waiting = threading.Thread(target=questions.next, args=(60,))
    waiting.start()
    questions.put(None)
    waiting.join(30)
    assert not waiting.is_alive()
