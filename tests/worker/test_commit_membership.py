"""Under which membership a transaction sends its offsets, and what a refusal means, without a broker."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import CommitDeferred, CommitRefused
from kstreams_assign.group.values import MemberId
from kstreams_assign.worker.commit_membership import CommitMembership, GenerationEnded

OLD, NEW = MemberId(7, "a member", None), MemberId(8, "a member", None)
REFUSED = CommitRefused("ILLEGAL_GENERATION")


class Members:
    """A membership as the test sets it."""

    def __init__(self) -> None:
        self.losses = 0
        self.now = OLD
        self.unjoined: Exception | None = None

    def member(self) -> MemberId:
        if self.unjoined is not None:
            raise self.unjoined
        return self.now

    def transaction_member(self) -> MemberId:
        if isinstance(self.unjoined, CommitRefused):
            raise self.unjoined
        return self.now


@pytest.fixture
def members() -> Members:
    return Members()


@pytest.fixture
def membership(members: Members) -> CommitMembership:
    membership = CommitMembership(members, members.losses)
    membership.begin()
    return membership


def test_a_member_that_joins_again_keeps_its_tasks_and_waits_for_the_new_generation(
    members: Members, membership: CommitMembership
) -> None:
    members.unjoined = CommitDeferred("joining")
    assert membership.member() == OLD
    assert membership.unnamed_ms is None
    with pytest.raises(GenerationEnded, match="ILLEGAL_GENERATION"):
        membership.refused(OLD, REFUSED)
    assert membership.unnamed_ms is not None
    members.now = NEW
    assert membership.unnamed_ms is None
    assert membership.member() == NEW


def test_a_member_that_has_joined_meanwhile_keeps_its_tasks(members: Members, membership: CommitMembership) -> None:
    members.now = NEW
    with pytest.raises(GenerationEnded):
        membership.refused(OLD, REFUSED)
    assert membership.unnamed_ms is None, "it knows the new generation"


def test_a_member_that_does_not_join_is_out_of_the_group(members: Members, membership: CommitMembership) -> None:
    membership.refused(OLD, REFUSED)
    members.unjoined = CommitRefused("in no generation")
    membership.refused(OLD, REFUSED)
    assert membership.unnamed_ms is None
    with pytest.raises(CommitRefused, match="in no generation"):
        membership.member()


def test_a_membership_that_was_lost_sends_nothing_also_in_a_commit_that_begins_later(
    members: Members, membership: CommitMembership
) -> None:
    """The member has joined again, and its tasks are not dropped yet."""
    assert not membership.is_lost
    members.losses, members.now = 1, NEW
    membership.begin()
    assert membership.is_lost
    with pytest.raises(CommitRefused, match="was lost"):
        membership.member()
    membership.refused(OLD, REFUSED)
    assert CommitMembership(members, members.losses).member() == NEW


def test_a_membership_that_is_lost_during_the_look_at_it_sends_nothing(
    members: Members, membership: CommitMembership, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_and_join() -> MemberId:
        members.losses = 1
        return NEW

    monkeypatch.setattr(members, "transaction_member", lose_and_join)
    with pytest.raises(CommitRefused, match="was lost"):
        membership.member()


def test_the_next_commit_sends_under_a_generation_that_was_refused(
    members: Members, membership: CommitMembership
) -> None:
    """A coordinator that moves before it has stored a generation gives the same number again."""
    members.unjoined = CommitDeferred("joining")
    with pytest.raises(GenerationEnded):
        membership.refused(OLD, REFUSED)
    members.unjoined = None
    assert membership.unnamed_ms is not None, "nothing tells the two apart"
    membership.begin()
    assert membership.unnamed_ms is None
    assert membership.member() == OLD
