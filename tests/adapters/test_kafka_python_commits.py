"""Commits on a broker, by a member that loses its membership meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from kafka.errors import CoordinatorNotAvailableError, OffsetMetadataTooLargeError, UnknownTopicOrPartitionError
from kafka.protocol.consumer import OffsetCommitResponse

from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.kafka_python import GroupClient, remove_members
from kstreams_assign.adapters.kafka_python.absent_partitions import take_absent
from kstreams_assign.adapters.kafka_python.streams_commits import check_commit
from kstreams_assign.errors import CommitRefused, PartitionsAbsent
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until


class Member:
    """A member with one partition."""

    def __init__(self, broker: str) -> None:
        self.broker, self.group = broker, f"g-{uuid4().hex}"
        self.input = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
        self.protocol = Protocol()
        self.client = GroupClient(
            group_id=self.group,
            bootstrap_servers=broker,
            topics=[self.input.topic],
            protocol_name="stream",
            protocolist=self.protocol,
            settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
        )
        until(lambda: self.client.join(1))

    def lose_and_join_again(self) -> None:
        member_id = self.client.member_id()
        remove_members(self.broker, {}, self.group, [(member_id, None)], "a test", PATIENCE_S)
        self.client._coordinator.reset_generation()  # as its next heartbeat finds
        until(lambda: self.client.join(1))
        assert self.client.member_id() != member_id

    def commit(self, offset: int) -> None:
        self.client.commit({self.input: offset}, PATIENCE_S)

    def committed(self) -> int | None:
        offsets = CommittedOffsets(self.broker, None, group_id=self.group)
        try:
            return offsets.read([self.input], PATIENCE_S).get(self.input)
        finally:
            offsets.close()


@pytest.fixture
def member(broker: str) -> Iterator[Member]:
    member = Member(broker)
    yield member
    member.client.close(PATIENCE_S, leave=True)


def test_a_commit_that_is_tried_again_does_not_count_in_a_later_membership(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the coordinator is away for the commit, the member loses its membership and joins again."""
    member.commit(7)
    coordinator = member.client._coordinator
    send = coordinator._send_offset_commit_request
    tried, go_on = threading.Event(), threading.Event()

    async def send_offset_commit_request(offsets: object) -> None:
        tried.set()
        if not go_on.is_set():
            raise CoordinatorNotAvailableError
        await send(offsets)

    monkeypatch.setattr(coordinator, "_send_offset_commit_request", send_offset_commit_request)
    with ThreadPoolExecutor() as beside:
        commit = beside.submit(member.commit, 9)
        assert tried.wait(PATIENCE_S)
        member.lose_and_join_again()
        go_on.set()
        with pytest.raises(CommitRefused, match="the membership was lost"):
            commit.result(PATIENCE_S)
    assert member.committed() == 7
    member.commit(8)
    assert member.committed() == 8


def test_partitions_that_do_not_exist_hold_up_no_others(member: Member) -> None:
    absent = {TopicPartition(member.input.topic, 1): 3, TopicPartition("unknown-topic", 0): 4}
    with pytest.raises(PartitionsAbsent, match=rf"do not know {member.input.topic}-1, unknown-topic-0") as deferred:
        member.client.commit({member.input: 5, **absent}, PATIENCE_S)
    assert deferred.value.partitions == absent.keys()
    assert member.committed() == 5
    member.commit(6)
    assert member.committed() == 6


def answer(**codes: int) -> OffsetCommitResponse:
    """An answer with one partition a topic."""
    made = OffsetCommitResponse.OffsetCommitResponseTopic
    part = made.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            made(name=topic, partitions=[part(partition_index=0, error_code=code)]) for topic, code in codes.items()
        ]
    )


def test_other_errors_go_before_partitions_that_do_not_exist() -> None:
    mixed = answer(gone=UnknownTopicOrPartitionError.errno, large=OffsetMetadataTooLargeError.errno)
    assert take_absent(mixed) == {TopicPartition("gone", 0)}
    assert take_absent(mixed) == frozenset()
    with pytest.raises(OffsetMetadataTooLargeError):
        check_commit(answer(gone=UnknownTopicOrPartitionError.errno, large=OffsetMetadataTooLargeError.errno))
