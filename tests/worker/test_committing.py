"""A commit's steps with a real producer and a real store: what is sent, what is written, and in which order."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kstreams_assign import TaskId, TopicPartition
from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    ConfluentChangelogReader,
    RecordProducer,
    TransactionalProducer,
)
from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.engine import commits
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.errors import CommitDeferred, CommitRefused, RecordRefused
from kstreams_assign.events import Event, TransactionRestartedEvent
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.buffer import Emitted, Taken
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.worker import committing
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.running import Work
from kstreams_assign.worker.shares import Share
from kstreams_assign.worker.task_workspace import TaskWorkspace
from tests.adapters.confluent_cluster import until
from tests.adapters.test_confluent_producer import read_all

INPUT = TopicPartition("in", 0)
PATIENCE_S = 60.0
LINGERING = {"linger.ms": "500"}
"""So that who does not wait has looked before the records have left. Who waits does not wait for this."""


NO_MEMBER = MemberId(-1, "", None)
"""Who commits to a group without members."""


class Group:
    """A membership that answers as the test sets it, and keeps the offsets that it was asked to commit."""

    def __init__(self) -> None:
        self.lease_s = 100.0
        self.refusal: Exception | None = None
        self.who = NO_MEMBER
        self.committed: list[Mapping[TopicPartition, int]] = []
        self.losses = 0

    def join_again(self) -> None:
        """The group has a new generation, whose number this member does not know yet."""
        self.refusal, self.who = CommitDeferred("joining"), MemberId(5, "a member of once", None)

    def be_joined(self) -> None:
        self.refusal, self.who = None, NO_MEMBER

    def transaction_member(self) -> MemberId:
        return self.who

    def lease_left_s(self) -> float:
        return self.lease_s

    def member(self) -> MemberId:
        if self.refusal is not None:
            raise self.refusal
        return self.who

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        _only_as: MemberId | None = None,
    ) -> None:
        assert timeout_s > 0
        assert metadata == {INPUT: "newest"}
        if self.refusal is not None:
            raise self.refusal
        self.committed.append(offsets)


class Desk:
    """One task's share, its store, its changelog and an output topic."""

    def __init__(self, broker: str, name: str, folder: Path, *, exactly_once: bool = False) -> None:
        self.broker = broker
        self.changelog, self.output = TopicPartition(f"{name}-log", 0), TopicPartition(f"{name}-out", 0)
        self.admin = ClusterAdmin(broker)
        self.admin.create_topics({self.changelog.topic: 1, self.output.topic: 1, INPUT.topic: 1}, PATIENCE_S)
        self.stores: RocksTaskStores = open_task_stores(folder, ["totals"])
        self.group = Group()
        self.producer = (
            TransactionalProducer(broker, group_id=name, transactional_id=name, delivery_timeout_ms=60_000)
            if exactly_once
            else RecordProducer(broker, LINGERING, delivery_timeout_ms=60_000)
        )
        if isinstance(self.producer, TransactionalProducer):
            self.producer.prepare(60)
        self.restarts = 0
        self.committer = Committer(self.producer, self.group, 10, EventLog("test", self._hear))
        self.landed = 0

    def begin(self, *others: Share) -> None:
        share = Share(
            TaskId(0, 0),
            self.stores,
            {"totals": self.changelog},
            frozenset(),
            Work(
                Taken(
                    {"totals": {b"k": b"v", b"gone": None}},
                    {"totals": {b"k": 7_000, b"gone": 8_000}},
                    [Emitted(self.output.topic, b"k", b"out", partition=self.output.partition)],
                ),
                {INPUT: 7},
                {INPUT: "newest"},
            ),
            self._land,
        )
        self.committer.begin([share, *others])

    def _hear(self, event: Event) -> None:
        self.restarts += isinstance(event, TransactionRestartedEvent)

    def _land(self) -> None:
        self.landed += 1

    def committed(self) -> int:
        """Return how many records of the changelog a committed reader sees, once no transaction is open."""
        (_, end) = self.admin.bounds([self.changelog], PATIENCE_S)[self.changelog]
        reader = ConfluentChangelogReader(self.broker, group_id="c", admin=self.admin, read_committed=True)
        reader.add({self.changelog: 0})
        records, reached, deadline = 0, 0, time.monotonic() + PATIENCE_S
        while reached < end:
            assert time.monotonic() < deadline, f"committed up to {reached} of {end}, or the reader gets nothing"
            for batch in reader.poll(1.0):
                assert batch.in_range, "the broker has deleted what was written"
                records, reached = records + len(batch.writes), batch.next_offset
        reader.close()
        return records

    def written(self) -> tuple[int, int]:
        ends = self.admin.end_offsets([self.changelog, self.output], PATIENCE_S)
        return ends[self.changelog], ends[self.output]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "WAIT_S", PATIENCE_S)


@pytest.fixture
def exact(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """The same under exactly once."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name)[-80:]
    exact = Desk(broker, name, tmp_path / "store", exactly_once=True)
    yield exact
    exact.committer.close()
    exact.stores.close()
    exact.producer.close()


@pytest.fixture
def desk(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    desk = Desk(broker, request.node.name[:80], tmp_path / "store")
    yield desk
    desk.committer.close()
    desk.stores.close()
    desk.producer.close()


def whole(desk: Desk) -> CommitEnded:
    ended = desk.committer.advance(wait=True)
    assert ended is not None
    return ended


def end_of(desk: Desk) -> CommitEnd:
    return whole(desk).end


def test_everything_is_in_its_place_after_a_commit(desk: Desk) -> None:
    desk.begin()
    assert end_of(desk) is CommitEnd.DONE
    assert desk.written() == (2, 1)
    assert desk.stores.get("totals", b"k") == b"v"
    assert desk.stores.offsets() == {desk.changelog: 2}
    assert desk.group.committed == [{INPUT: 7}]
    assert desk.landed == 1
    assert desk.committer.advance() is None, "there is no commit"


def test_offsets_of_a_membership_that_was_lost_meanwhile_are_not_committed(desk: Desk) -> None:
    """Also if the member has joined again: its tasks were others' in between."""
    desk.begin()
    assert desk.committer.advance() is None, "the records are on their way"
    desk.group.losses += 1
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.group.committed == []


def test_a_commit_that_begins_in_the_membership_after_that_of_its_tasks_sends_nothing(desk: Desk) -> None:
    """The member has joined again: it has a new lease, and the order to drop its tasks waits."""
    assert not desk.committer.membership_lost
    desk.group.losses += 1
    assert desk.committer.membership_lost
    desk.begin()
    assert end_of(desk) is CommitEnd.FENCED
    assert (desk.written(), desk.group.committed) == ((0, 0), [])
    desk.committer.begin_membership(desk.group.losses)
    desk.begin()
    assert end_of(desk) is CommitEnd.DONE


def test_records_do_not_leave_under_the_lease_of_the_next_membership(desk: Desk) -> None:
    desk.begin()
    assert desk.committer.advance() is None, "the records are on their way"
    desk.group.losses += 1
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.written() == (0, 0)


def test_a_call_that_waits_for_its_turn_commits_nothing_once_its_tasks_are_dropped(desk: Desk) -> None:
    before = threading.Event()
    desk.committer._sender.submit(lambda: before.wait(PATIENCE_S))
    desk.begin()
    until(desk.committer.advance, lambda _: desk.committer._answer is not None)
    desk.group.losses += 1
    desk.committer.abandon()
    desk.committer.begin_membership(desk.group.losses)
    desk.begin()
    before.set()
    assert end_of(desk) is CommitEnd.DONE
    assert desk.group.committed == [{INPUT: 7}], "that of the second commit alone"


def workspace_of(desk: Desk) -> TaskWorkspace:
    """Return a task without stores or inputs that has emitted one record to the output topic."""
    shape = SubtopologyShape((INPUT.topic,))
    workspace = TaskWorkspace(TaskId(0, 1), shape, {"out": desk.output.topic}, None, AtWork(0), {})
    workspace.emit_many([Emitted("out", b"k", b"ahead", partition=0)])
    return workspace


def share_of(workspace: TaskWorkspace) -> Share:
    work = Work(workspace.take(), {}, {})
    return Share(TaskId(0, 1), None, {}, frozenset(), work, workspace.landed)


def test_what_is_sent_ahead_is_not_sent_again_by_its_commit(desk: Desk) -> None:
    workspace = workspace_of(desk)
    desk.committer.send_ahead(workspace)
    assert not workspace.unsent()
    workspace.emit_many([Emitted("out", b"k", b"with the commit", partition=0)])
    desk.begin(share_of(workspace))
    assert end_of(desk) is CommitEnd.DONE
    assert desk.written() == (2, 3)
    assert desk.committer.records_produced.view()[TaskId(0, 1), desk.output.topic] == 2


def test_what_is_sent_ahead_while_a_commit_is_under_way_belongs_to_the_next(desk: Desk) -> None:
    desk.begin()
    assert desk.committer.advance() is None
    workspace = workspace_of(desk)
    desk.committer.send_ahead(workspace)
    assert end_of(desk) is CommitEnd.DONE
    assert not workspace.unsent()


def test_dropped_records_that_were_sent_ahead_of_a_later_commit_are_sent_again(desk: Desk) -> None:
    desk.begin()
    assert desk.committer.advance() is None
    workspace = workspace_of(desk)
    desk.committer.send_ahead(workspace)
    desk.group.lease_s = 0
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.written() == (0, 0), "nothing has left"
    desk.group.lease_s = 100.0
    desk.begin(share_of(workspace))
    assert end_of(desk) is CommitEnd.DONE
    assert desk.written() == (2, 2)


def test_what_was_sent_ahead_of_discarded_work_never_arrives(desk: Desk) -> None:
    workspace = workspace_of(desk)
    desk.committer.send_ahead(workspace)
    desk.committer.discard_work()
    assert workspace.unsent(), "a task that goes on sends it again"
    desk.begin()
    while end_of(desk) is CommitEnd.FAILED:  # the client may drop also what is produced soon after
        desk.begin()
    assert {message.value() for message in read_all(desk.broker, desk.output.topic, 1)} == {b"out"}


def test_discarded_work_leaves_the_commit_under_way_alone(desk: Desk) -> None:
    desk.begin()
    assert desk.committer.advance() is None
    workspace = workspace_of(desk)
    desk.committer.send_ahead(workspace)
    desk.committer.discard_work()
    assert end_of(desk) is CommitEnd.DONE
    assert desk.written()[0] == 2
    assert workspace.unsent(), "a task that goes on sends it again"


def test_a_process_that_slept_past_its_session_sends_nothing(desk: Desk) -> None:
    desk.group.lease_s = -0.1
    desk.begin()
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.written() == (0, 0)
    assert desk.stores.get("totals", b"k") is None
    assert not desk.group.committed


def test_a_session_that_may_have_ended_while_records_were_on_their_way_fences_the_tasks(desk: Desk) -> None:
    desk.begin()
    assert desk.committer.advance() is None
    desk.group.lease_s = 0
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.stores.get("totals", b"k") is None
    assert not desk.group.committed


def test_a_rebalance_under_way_defers_the_offsets_and_nothing_else(desk: Desk) -> None:
    desk.group.refusal = CommitDeferred("joining")
    desk.begin()
    assert end_of(desk) is CommitEnd.DEFERRED
    assert desk.written() == (2, 1)
    assert desk.stores.get("totals", b"k") == b"v"
    assert desk.committer.offsets() == {INPUT: 7}


def test_a_generation_that_is_over_fences_the_tasks(desk: Desk) -> None:
    desk.group.refusal = CommitRefused("illegal generation")
    desk.begin()
    assert end_of(desk) is CommitEnd.FENCED


def test_without_waiting_a_commit_gets_there_turn_by_turn(desk: Desk) -> None:
    desk.begin()
    turns = 1
    while (end := desk.committer.advance()) is None:
        turns += 1
    assert end.end is CommitEnd.DONE
    assert turns > 1, "it did not wait for the broker"


def test_an_undeliverable_record_is_reported_with_task_and_remedy(desk: Desk) -> None:
    desk.output = TopicPartition(desk.output.topic, 5)
    desk.begin()
    with pytest.raises(RecordRefused, match=r"task 0_0: .*_UNKNOWN_PARTITION.*: create it"):
        desk.committer.advance(wait=True)
    assert desk.stores.get("totals", b"k") is None
    assert not desk.group.committed


def test_a_deleted_changelog_fails_the_tasks_and_not_the_worker(desk: Desk) -> None:
    desk.changelog = TopicPartition(desk.changelog.topic, 5)
    desk.begin()
    ended = whole(desk)
    assert ended.end is CommitEnd.FAILED
    assert ended.failed == (TaskId(0, 0),)
    assert "_UNKNOWN_PARTITION" in ended.reason
    assert desk.stores.get("totals", b"k") is None
    assert not desk.group.committed


def test_a_store_that_cannot_be_written_fails_its_own_task_and_no_other(desk: Desk, tmp_path: Path) -> None:
    broken = open_task_stores(tmp_path / "broken", ["totals"])
    broken.close()
    other = TopicPartition("in", 1)
    work = Work(Taken({"totals": {b"k": b"v"}}, {"totals": {b"k": 1}}, []), {other: 3}, {})
    share = Share(TaskId(0, 1), broken, {}, frozenset(), work, lambda: None)
    desk.begin(share)
    ended = whole(desk)
    assert ended.end is CommitEnd.DONE
    assert ended.failed == (TaskId(0, 1),)
    assert "is closed" in ended.reason
    assert desk.group.committed == [{INPUT: 7}]
    assert desk.stores.get("totals", b"k") == b"v"


def test_exactly_once_the_store_follows_the_transaction(exact: Desk) -> None:
    exact.begin()
    assert end_of(exact) is CommitEnd.DONE
    assert exact.committed() == 2
    assert exact.stores.get("totals", b"k") == b"v"
    assert exact.stores.offsets() == {exact.changelog: 2}
    assert exact.committer.aborted_total == 0


def test_exactly_once_a_generation_that_is_over_is_fenced_and_nothing_of_it_is_read(exact: Desk) -> None:
    exact.group.who = MemberId(5, "a member of once", None)
    exact.begin()
    assert end_of(exact) is CommitEnd.FENCED
    assert exact.written()[0] > 0, "the records were sent before the group was asked"
    assert exact.committed() == 0
    assert exact.stores.get("totals", b"k") is None
    assert exact.committer.aborted_total == 1


def test_a_member_without_a_generation_sends_nothing(desk: Desk) -> None:
    """Even if its session lasts: the broker may remove a member earlier."""
    desk.group.refusal = CommitRefused("in no generation")
    desk.begin()
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.written() == (0, 0)


def test_a_session_that_may_have_ended_between_two_records_fences_the_tasks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "LOOK_RECORDS", 1)
    leases = iter([10.0, 10.0, -1.0])  # before the first record, before the second: stopped in between
    monkeypatch.setattr(desk.group, "lease_left_s", lambda: next(leases, -1.0))
    desk.begin()
    assert end_of(desk) is CommitEnd.FENCED
    assert desk.stores.get("totals", b"k") is None
    assert not desk.group.committed


def test_a_turn_without_anything_to_commit_does_not_report_the_earlier_failure(exact: Desk) -> None:
    exact.group.join_again()
    exact.begin()
    assert end_of(exact) is CommitEnd.FAILED
    exact.committer.begin([])
    assert exact.committer.advance() == CommitEnded(CommitEnd.DONE)


def test_exactly_once_what_is_aborted_fails_the_tasks_and_the_next_commit_goes_on(exact: Desk) -> None:
    exact.group.join_again()
    exact.begin()
    ended = whole(exact)
    assert ended.end is CommitEnd.FAILED
    assert ended.failed == (TaskId(0, 0),)
    exact.group.be_joined()
    exact.begin()
    while (end := exact.committer.advance()) is None:
        pass
    assert end.end is CommitEnd.DONE
    assert exact.committed() == 2


def test_exactly_once_a_transaction_of_a_generation_that_is_over_is_begun_again(exact: Desk) -> None:
    exact.group.join_again()
    exact.begin()
    deadline = time.monotonic() + PATIENCE_S
    while not exact.restarts:
        assert exact.committer.advance() is None
        assert time.monotonic() < deadline
    assert exact.committer.advance() is None, "it waits for the new generation"
    exact.group.be_joined()
    assert until_ended(exact) is CommitEnd.DONE
    assert exact.committed() == 2
    assert exact.landed == 1
    assert exact.restarts == 1
    assert exact.committer.aborted_total == 0


def test_exactly_once_a_commit_does_not_wait_for_a_rebalance(exact: Desk) -> None:
    exact.group.refusal = CommitDeferred("joining")
    exact.begin()
    assert end_of(exact) is CommitEnd.DONE
    assert exact.committed() == 2


def test_exactly_once_a_membership_that_was_lost_meanwhile_commits_nothing(exact: Desk) -> None:
    """Also if the member has joined again: its tasks were others' in between."""
    exact.begin()
    assert exact.committer.advance() is None, "the transaction has begun"
    exact.group.losses += 1
    assert end_of(exact) is CommitEnd.FENCED
    assert exact.committed() == 0


def test_exactly_once_times_of_a_lost_membership_are_not_committed_in_the_next(exact: Desk) -> None:
    exact.committer.tell_times({INPUT: 7}, {INPUT: "newest"})
    exact.group.losses += 1
    exact.committer.tell_times({INPUT: 8}, {INPUT: "newest"})
    assert exact.group.committed == [{INPUT: 7}]


def test_exactly_once_a_commit_that_is_abandoned_is_taken_back_before_the_next(exact: Desk) -> None:
    exact.begin()
    while exact.written()[0] == 0:
        exact.committer.advance()
    exact.committer.abandon()
    exact.begin()
    assert end_of(exact) is CommitEnd.DONE
    assert exact.committed() == 2


def until_ended(desk: Desk) -> CommitEnd:
    deadline = time.monotonic() + PATIENCE_S
    while (ended := desk.committer.advance()) is None:
        assert time.monotonic() < deadline, "the commit never ends"
    return ended.end


def test_exactly_once_a_client_that_never_comes_back_is_left_and_another_takes_back_what_it_began(
    exact: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``send_offsets_to_transaction`` hangs so in librdkafka while the coordinator is lost, whatever its timeout."""
    back, hung = threading.Event(), exact.producer
    real = hung.send_offsets
    monkeypatch.setattr(hung, "send_offsets", lambda *_: back.wait(60))
    monkeypatch.setattr(commits, "HUNG_MS", 500)
    exact.begin()
    assert until_ended(exact) is CommitEnd.FAILED
    monkeypatch.setattr(commits, "HUNG_MS", 20_000)
    monkeypatch.setattr(hung, "send_offsets", real)
    while not hung.settled:  # no commit begins, and the broker still takes back the started one
        exact.committer.settle()
    assert exact.committed() == 0
    exact.begin()
    assert until_ended(exact) is CommitEnd.DONE
    assert exact.committed() == 2
    back.set()
