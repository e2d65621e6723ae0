"""The group coordinator that is played answers as Kafka's does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.coordinator import INITIAL_DELAY_MS, Coordinator, Error, GroupPhase, Joined, Synced
from kstreams_assign.sim.timeline import Timeline

SESSION_MS, REBALANCE_MS = 10_000, 60_000
OFFSETS = {TopicPartition("orders", 0): 7}


class Group:
    """A coordinator and what it answered."""

    def __init__(self):
        self.timeline = Timeline()
        self.accepted = []
        self.coordinator = Coordinator(
            self.timeline, SESSION_MS, REBALANCE_MS, lambda member, offsets: self.accepted.append((member, offsets))
        )
        self.joins: list[Joined] = []
        self.syncs: list[Synced] = []

    def join(self, member_id="", instance=None, user_data=b"1"):
        self.coordinator.join(JoinedMember(member_id, ("orders",), (), user_data, instance), self.joins.append)

    def enter(self, instance=None):
        """Join as a new member does; the id."""
        self.join(instance=instance)
        if instance is None:
            self.join(self.joins[-1].member_id)
            return self.joins[-1].member_id
        return next(member for member, seat in self.coordinator.seats.items() if seat.said.instance_id == instance)

    def wait(self, ms):
        self.timeline.run(self.timeline.now_ms + ms)

    def sync(self, member, generation=None, answers=None, instance=None):
        number = self.coordinator.generation if generation is None else generation
        self.coordinator.sync(member, instance, number, answers or {}, self.syncs.append)
        return self.syncs[-1].error if self.syncs else None

    def settled(self, count=2, instances=(None, None)):
        members = [self.enter(instance) for instance in instances[:count]]
        self.wait(INITIAL_DELAY_MS)
        for member, instance in zip(members, instances, strict=False):
            if member != self.coordinator.leader:
                self.sync(member, instance=instance)
        leader = self.coordinator.leader
        given = {member: MemberAssignment((), member.encode()) for member in members}
        self.sync(leader, answers=given, instance=dict(zip(members, instances, strict=False))[leader])
        return members


def test_a_new_member_is_given_an_id_first_and_the_first_join_waits_for_others():
    group = Group()
    group.join()
    assert group.joins[-1].error is Error.MEMBER_ID_REQUIRED
    group.join(group.joins[-1].member_id)
    assert group.coordinator.phase is GroupPhase.PREPARING
    group.wait(INITIAL_DELAY_MS)
    assert (group.joins[-1].generation, len(group.joins[-1].members)) == (1, 1)


def test_everybody_gets_what_the_leader_says():
    group = Group()
    members = group.settled()
    assert {sync.assignment.user_data for sync in group.syncs} == {member.encode() for member in members}
    assert group.coordinator.phase is GroupPhase.STABLE


def test_a_member_that_is_silent_for_a_session_is_removed_and_the_group_rebalances():
    group = Group()
    first, second = group.settled()
    for _ in range(4):
        group.wait(3_000)
        group.coordinator.heartbeat(first, None, 1)
    assert group.coordinator.heartbeat(first, None, 1) is Error.REBALANCE_IN_PROGRESS
    assert group.coordinator.heartbeat(second, None, 1) is Error.UNKNOWN_MEMBER_ID


def test_who_does_not_join_within_the_rebalance_timeout_is_out():
    group = Group()
    first, second = group.settled()
    group.join(first, user_data=b"2")
    for _ in range(REBALANCE_MS // 3_000 + 1):
        group.wait(3_000)
        group.coordinator.heartbeat(second, None, 1)
    assert set(group.coordinator.seats) == {first}
    assert group.coordinator.generation == 2


def test_a_static_member_that_does_not_join_in_time_stays_and_owns_nothing_until_it_does():
    group = Group()
    first, second = group.settled(instances=("a", "b"))
    group.join(first, "a", user_data=b"2")
    for _ in range(REBALANCE_MS // 3_000 + 1):
        group.wait(3_000)
        group.coordinator.heartbeat(second, "b", 1)
    task = TaskId(0, 0)
    assert set(group.coordinator.seats) == {first, second}
    assert (group.coordinator.owns(first, task), group.coordinator.owns(second, task)) == (True, False)
    group.sync(first, instance="a")
    group.coordinator.move(1)
    group.wait(1)
    assert (group.coordinator.owns(first, task), group.coordinator.owns(second, task)) == (True, False)
    group.join(first, "a", user_data=b"3")
    group.join(second, "b")
    assert group.coordinator.owns(second, task)


@pytest.mark.parametrize("generation", [0, 2])
def test_a_commit_of_another_generation_is_refused(generation):
    group = Group()
    first, _ = group.settled()
    assert group.coordinator.commit(first, None, generation, OFFSETS) is Error.ILLEGAL_GENERATION
    assert group.accepted == []


def test_commits_are_taken_while_members_are_awaited_and_refused_while_the_leader_decides():
    group = Group()
    first, second = group.settled()
    group.join(first, user_data=b"2")
    assert group.coordinator.commit(second, None, 1, OFFSETS) is Error.NONE
    group.join(second, user_data=b"2")
    assert group.coordinator.phase is GroupPhase.COMPLETING
    assert group.coordinator.commit(second, None, 2, OFFSETS) is Error.REBALANCE_IN_PROGRESS
    assert group.accepted == [(second, OFFSETS)]


def test_a_commit_renews_the_session_and_one_in_a_transaction_does_not():
    group = Group()
    first, second = group.settled()
    group.wait(SESSION_MS - 1)
    assert group.coordinator.commit(first, None, 1, OFFSETS) is Error.NONE
    assert group.coordinator.transactional_commit(second, None, 1, OFFSETS) is Error.NONE
    group.wait(1)
    assert set(group.coordinator.seats) == {first}


def test_a_static_member_that_comes_back_takes_its_assignment_over_and_fences_who_was_before():
    group = Group()
    first, _ = group.settled(instances=("a", "b"))
    group.join(instance="a")
    member_id = group.joins[-1].member_id
    assert (group.joins[-1].error, group.joins[-1].members) == (Error.NONE, ())
    assert group.coordinator.phase is GroupPhase.STABLE
    group.sync(member_id, instance="a")
    assert group.syncs[-1].assignment.user_data == first.encode()
    assert group.coordinator.heartbeat(first, "a", 1) is Error.FENCED_INSTANCE_ID


def test_another_broker_knows_what_was_written_down_and_nothing_of_a_rebalance_under_way():
    group = Group()
    first, _ = group.settled()
    group.join(first, user_data=b"2")
    group.coordinator.move(2_000)
    assert group.joins[-1].error is Error.NOT_COORDINATOR
    assert group.coordinator.heartbeat(first, None, 1) is Error.NOT_COORDINATOR
    group.wait(2_000)
    assert group.coordinator.heartbeat(first, None, 1) is Error.NONE
    assert group.coordinator.phase is GroupPhase.STABLE


def test_sessions_start_when_another_broker_answers_also_if_that_is_early():
    group = Group()
    first, _ = group.settled()
    group.coordinator.move(60_000)
    group.wait(1_000)
    group.coordinator.be_back()
    group.wait(SESSION_MS - 1)
    assert group.coordinator.heartbeat(first, None, 1) is Error.NONE
    group.wait(1)
    assert set(group.coordinator.seats) == {first}


def test_a_join_that_says_nothing_new_changes_nothing_unless_the_leader_asks():
    group = Group()
    group.settled()
    leader = group.coordinator.leader
    other = next(member for member in group.coordinator.seats if member != leader)
    said = group.coordinator.seats[other].said
    group.coordinator.join(replace(said), group.joins.append)
    assert group.coordinator.phase is GroupPhase.STABLE
    group.join(leader)
    assert group.coordinator.phase is GroupPhase.PREPARING
