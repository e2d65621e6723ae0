"""An answer of a program counts for a question that ``poll`` has returned; without one it has no effect."""

from __future__ import annotations

import pytest

from kstreams_assign import Assignment, CommitDue, GroupMember, Lost
from kstreams_assign.group import member as machine
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted
from kstreams_assign.worker.group_member import Questions

NOTHING = Adopted({}, frozenset(), frozenset())
FOLLOW_UP = Adopted({}, frozenset(), frozenset(), follow_up=True)


class Classic:
    """A membership in a classic group, without its client."""

    def __init__(self, questions: Questions) -> None:
        self.machine = machine.Member()
        self._questions = questions

    def handle(self, event: machine.Event) -> None:
        for action in self.machine.handle(event, 0):
            match action:
                case machine.Commit():
                    self._questions.commit_now()
                case machine.Adopt(generation, adopted):
                    self._questions.adopt(generation, adopted)
                case machine.DropAll(reason):
                    self._questions.drop_all(reason)

    @property
    def state(self) -> State:
        return self.machine.state


@pytest.fixture
def member() -> GroupMember:
    member = GroupMember.__new__(GroupMember)
    member._questions, member._failure = Questions(), None
    member._membership = Classic(member._questions)  # type: ignore[assignment]
    return member


@pytest.fixture
def group(member: GroupMember) -> Classic:
    """What the member's client reports."""
    group = member._membership
    assert isinstance(group, Classic)
    return group


def test_answers_before_the_with_block_have_no_effect(member: GroupMember, group: Classic) -> None:
    member.let_go()
    member.ready_to_join()
    assert group.state is State.UNJOINED


def test_tasks_may_be_let_go_twice_also_if_the_next_rebalance_begins_between(
    member: GroupMember, group: Classic
) -> None:
    for event in (machine.Started(), machine.Assigned(1, FOLLOW_UP)):
        group.handle(event)
    assert isinstance(member.poll(0), Assignment)
    member.let_go()
    assert group.state is State.PREPARING
    member.let_go()
    assert member.poll(0) == CommitDue()
    member.ready_to_join()
    assert group.state is State.JOINING


def test_an_assignment_is_let_go_once_the_program_has_taken_it(member: GroupMember, group: Classic) -> None:
    """Its revoked tasks may run until then."""
    for event in (machine.Started(), machine.Assigned(1, NOTHING)):
        group.handle(event)
    member.let_go()
    assert group.state is State.RELEASING
    assert isinstance(member.poll(0), Assignment)
    member.let_go()
    assert group.state is State.STABLE


def test_a_program_that_has_not_taken_the_question_does_not_let_the_member_join(
    member: GroupMember, group: Classic
) -> None:
    """What was processed since its last commit is not committed yet."""
    for event in (machine.Started(), machine.Assigned(1, NOTHING)):
        group.handle(event)
    member.poll(0)
    member.let_go()
    for reason in ("a member joined", "a member left"):
        group.handle(machine.RejoinWanted(reason))
        member.ready_to_join()
        assert group.state is State.PREPARING
        assert member.poll(0) == CommitDue()
        member.ready_to_join()
        assert group.state is State.JOINING
        group.handle(machine.Assigned(2, NOTHING))
        assert isinstance(member.poll(0), Assignment)
        member.let_go()


def test_a_loss_ends_the_questions_before_it(member: GroupMember, group: Classic) -> None:
    for event in (machine.Started(), machine.Assigned(1, NOTHING)):
        group.handle(event)
    member.poll(0)
    member.let_go()
    group.handle(machine.RejoinWanted("a member joined"))
    group.handle(machine.MembershipLost("fenced"))
    group.handle(machine.Assigned(2, NOTHING))
    assert member.poll(0) == CommitDue()
    assert member.poll(0) == Lost("fenced")
    assert isinstance(member.poll(0), Assignment)
    member.let_go()
    group.handle(machine.RejoinWanted("a member left"))
    member.ready_to_join()
    assert group.state is State.PREPARING
    assert member.poll(0) == CommitDue()
    member.ready_to_join()
    assert group.state is State.JOINING
