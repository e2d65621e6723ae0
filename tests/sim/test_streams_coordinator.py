"""The coordinator of a streams group that is played answers as Kafka's does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.assign.java.streams_sticky import SubtopologyTasks
from kstreams_assign.engine.streams_errors import (
    FENCED_MEMBER_EPOCH,
    LOAD_IN_PROGRESS,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from kstreams_assign.engine.streams_events import AssignmentFound, StreamsTasks
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.coordinator import INITIAL_DELAY_MS, Error
from kstreams_assign.sim.streams_coordinator import ASSIGNMENT_INTERVAL_MS, StreamsCoordinator
from kstreams_assign.sim.timeline import Timeline
from kstreams_assign.wire import StreamsHeartbeatRequest
from kstreams_assign.wire.streams_heartbeat import ASSIGNMENT_DELAYED, LEAVE_EPOCH, StreamsTopology
from kstreams_assign.wire.streams_structs import task_ids, tasks_of

SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 10_000, 3_000, 60_000
TOPOLOGY = StreamsTopology(0, ())


def partition(number):
    return TopicPartition("orders", number)


class Group:
    """A coordinator of four tasks without standbys, and what it reported to the checkers."""

    def __init__(self, standbys=0):
        self.timeline = Timeline()
        self.accepted, self.answers, self.removed = [], [], []
        self.coordinator = StreamsCoordinator(
            self.timeline,
            SESSION_MS,
            HEARTBEAT_MS,
            {0: SubtopologyTasks(4, True)},
            standbys,
            {partition(number): TaskId(0, number) for number in range(4)},
            lambda member, offsets: self.accepted.append((member, offsets)),
            lambda member, owned, given: self.answers.append((member, owned, given)),
            self.removed.append,
        )
        self.epochs = {}

    def wait(self, ms):
        self.timeline.run(self.timeline.now_ms + ms)

    def heartbeat(self, name, epoch=None, owned=None, **fields):
        """Return the answer; ``owned`` are numbers of active tasks."""
        lists = {} if owned is None else {"active_tasks": rows(owned), "standby_tasks": (), "warmup_tasks": ()}
        number = self.epochs[name] if epoch is None else epoch
        answer = self.coordinator.heartbeat(StreamsHeartbeatRequest("app", name, number, **lists, **fields))
        if not answer.error_code:
            self.epochs[name] = answer.member_epoch
        return answer

    def join(self, name):
        return self.heartbeat(
            name, 0, (), process_id=f"process-{name}", topology=TOPOLOGY, rebalance_timeout_ms=REBALANCE_MS
        )

    def settled(self):
        """One member, which owns all four tasks, and a second one, which has just joined."""
        self.join("a")
        self.wait(INITIAL_DELAY_MS)
        self.heartbeat("a")
        self.heartbeat("a", owned=range(4))
        self.wait(ASSIGNMENT_INTERVAL_MS)
        self.join("b")


def rows(partitions):
    return task_ids(frozenset(TaskId(0, number) for number in partitions))


def given(answer):
    """Return the numbers of the active tasks of an answer; None: it says nothing of tasks."""
    return None if answer.active_tasks is None else {task.partition for task in tasks_of(answer.active_tasks)}


@pytest.fixture
def group():
    return Group()


def test_the_first_members_are_waited_for_and_get_the_tasks_at_their_next_heartbeats(group):
    answer = group.join("a")
    assert (answer.member_epoch, answer.heartbeat_interval_ms, given(answer)) == (1, HEARTBEAT_MS, set())
    assert [status.status_code for status in answer.status] == [ASSIGNMENT_DELAYED]
    group.join("b")
    group.wait(INITIAL_DELAY_MS)
    answers = [group.heartbeat(name) for name in "ab"]
    assert [answer.member_epoch for answer in answers] == [3, 3]
    assert sorted(number for answer in answers for number in given(answer)) == [0, 1, 2, 3]
    assert group.coordinator.rebalances == 1
    assert given(group.heartbeat("a")) is None, "nothing has changed"


def test_a_task_is_given_on_once_its_owner_has_reported_that_it_is_released(group):
    group.settled()
    assert given(group.heartbeat("b")) is None, "all tasks are still those of a"
    revoked = group.heartbeat("a", owned=range(4))
    assert (len(given(revoked)), revoked.member_epoch) == (2, 2), "it keeps its epoch until they are released"
    lost = set(range(4)) - given(revoked)
    assert given(group.heartbeat("a", owned=range(4))) is None
    assert given(group.heartbeat("b")) is None
    assert group.heartbeat("a", owned=given(revoked)).member_epoch == 3
    assert given(group.heartbeat("b")) == lost


def test_a_member_that_does_not_release_its_tasks_in_time_is_removed(group):
    group.settled()
    group.heartbeat("a", owned=range(4))
    for _ in range(REBALANCE_MS // 1_000):
        group.wait(1_000)
        for name in "ab":
            group.heartbeat(name)
    assert group.removed == ["a"]
    assert group.heartbeat("a").error_code == UNKNOWN_MEMBER_ID


def test_a_new_target_waits_for_an_interval_since_the_last_one(group):
    group.join("a")
    group.wait(INITIAL_DELAY_MS)
    group.join("b")
    assert group.coordinator.rebalances == 1
    group.heartbeat("a")
    assert group.coordinator.rebalances == 1
    group.wait(ASSIGNMENT_INTERVAL_MS)
    group.heartbeat("a")
    assert group.coordinator.rebalances == 2


def test_a_member_that_is_silent_for_its_session_is_removed(group):
    group.settled()
    group.wait(SESSION_MS - ASSIGNMENT_INTERVAL_MS - 1)
    group.heartbeat("b")
    assert group.removed == []
    group.wait(1)
    assert group.removed == ["a"]
    assert group.heartbeat("a").error_code == UNKNOWN_MEMBER_ID
    assert given(group.heartbeat("b")) == {0, 1, 2, 3}


def test_a_member_that_leaves_gives_its_tasks_up_at_once(group):
    group.settled()
    assert group.heartbeat("a", LEAVE_EPOCH).member_epoch == LEAVE_EPOCH
    group.wait(ASSIGNMENT_INTERVAL_MS)
    assert given(group.heartbeat("b")) == {0, 1, 2, 3}


def test_a_member_that_joins_again_keeps_what_it_has(group):
    group.settled()
    answer = group.join("a")
    assert (answer.member_epoch, len(given(answer))) == (3, 2), "owning nothing, it has released the others"
    assert group.removed == []


def test_of_older_epochs_the_last_is_taken_if_the_member_owns_no_more_than_it_is_assigned(group):
    group.settled()
    group.heartbeat("a", owned=range(4))
    kept = {task.partition for task in group.coordinator.seats["a"].active}
    group.heartbeat("a", owned=kept)
    for epoch, owned, code in [(2, kept, 0), (2, range(4), FENCED_MEMBER_EPOCH), (2, None, FENCED_MEMBER_EPOCH)]:
        assert group.heartbeat("a", epoch, owned).error_code == code
    assert group.heartbeat("a", 9, kept).error_code == FENCED_MEMBER_EPOCH


def test_offsets_of_a_task_are_taken_at_the_epoch_of_now_and_at_older_ones_since_the_task_came(group):
    group.settled()
    revoked = given(group.heartbeat("a", owned=range(4)))
    lost = min(set(range(4)) - revoked)
    for number in (lost, min(revoked)):
        assert group.coordinator.commit("a", 2, {partition(number): 5}) is Error.NONE
    group.heartbeat("a", owned=revoked)
    assert group.coordinator.commit("a", 2, {partition(min(revoked)): 6}) is Error.NONE, "it has had it since then"
    assert group.coordinator.commit("a", 2, {partition(lost): 6}) is Error.STALE_EPOCH
    assert group.coordinator.commit("a", 4, {partition(lost): 6}) is Error.STALE_EPOCH
    assert group.coordinator.commit("c", 2, {partition(lost): 6}) is Error.UNKNOWN_MEMBER_ID
    kept = min(revoked)
    assert group.accepted == [("a", {partition(number): at}) for number, at in [(lost, 5), (kept, 5), (kept, 6)]]


def test_a_standby_and_its_active_task_are_on_different_processes():
    group = Group(standbys=1)
    group.settled()
    for _ in range(3):
        for name in "ab":
            owned = {task.partition for task in group.coordinator.seats[name].active}
            group.heartbeat(name, owned=owned)
    seats = group.coordinator.seats.values()
    assert group.coordinator.is_stable
    assert [len(seat.standby) for seat in seats] == [2, 2]
    assert all(seat.standby.isdisjoint(seat.active) for seat in seats)


def test_a_coordinator_that_moves_keeps_the_group_and_begins_the_sessions_again(group):
    group.settled()
    group.wait(SESSION_MS - ASSIGNMENT_INTERVAL_MS - 1)
    group.coordinator.move(4_000)
    assert group.heartbeat("a").error_code == NOT_COORDINATOR
    assert group.coordinator.describe("a") is None
    assert group.coordinator.commit("a", 2, {partition(0): 5}) is Error.NOT_COORDINATOR
    group.wait(3_000)
    assert group.heartbeat("a").error_code == LOAD_IN_PROGRESS
    group.wait(1_000 + SESSION_MS - 1)
    assert group.removed == []
    assert not group.heartbeat("a").error_code
    group.wait(1)
    assert group.removed == ["b"]


def test_the_tasks_of_a_member_can_be_looked_up(group):
    group.settled()
    group.heartbeat("a", owned=range(4))
    seat = group.coordinator.seats["a"]
    assert group.coordinator.describe("a") == AssignmentFound(2, StreamsTasks(frozenset(seat.active), frozenset()))
    assert group.coordinator.describe("c") == AssignmentFound(0, None)


def test_a_join_that_claims_tasks_is_a_bug_of_the_member(group):
    with pytest.raises(AssertionError, match="three empty lists"):
        group.heartbeat("a", 0, range(1), process_id="process", topology=TOPOLOGY)
    group.join("a")
    with pytest.raises(AssertionError, match="all there or all missing"):
        group.coordinator.heartbeat(replace(StreamsHeartbeatRequest("app", "a", 1), active_tasks=()))
