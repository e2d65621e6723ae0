"""Heartbeats and descriptions of streams groups, on a real broker."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from uuid import uuid4

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.kafka_python import describes_groups, streams_coordinator, streams_groups
from kstreams_assign.errors import BrokerError, BrokerUnavailable, PartitionsAbsent
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    Endpoint,
    StreamsHeartbeatRequest,
    StreamsSubtopology,
    StreamsTopology,
    TopicInfo,
    tasks_of,
)

SECONDS = 60
FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION = 110, 25, 35
COORDINATOR_NOT_READY = {14, 15, 16}


def topology(group: str, topic: str) -> StreamsTopology:
    store = TopicInfo(f"{group}-store-changelog", topic_configs={"cleanup.policy": "compact"})
    return StreamsTopology(0, (StreamsSubtopology("0", (topic,), state_changelog_topics=(store,)),))


def join(coordinator, group: str, topic: str, **fields):
    request = StreamsHeartbeatRequest(
        group,
        str(uuid4()),
        0,
        rebalance_timeout_ms=45_000,
        topology=topology(group, topic),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id=str(uuid4()),
        client_tags={"zone": "a"},
        user_endpoint=Endpoint("localhost", 7070),
        **fields,
    )
    deadline = time.monotonic() + SECONDS
    answer = coordinator.heartbeat(request)
    while answer.error_code in COORDINATOR_NOT_READY and time.monotonic() < deadline:
        threading.Event().wait(0.1)
        answer = coordinator.heartbeat(request)
    assert not answer.error_code, answer.error_message
    return answer


def until_assigned(coordinator, group: str, answer):
    deadline = time.monotonic() + SECONDS
    while not answer.active_tasks:
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)
        answer = coordinator.heartbeat(StreamsHeartbeatRequest(group, answer.member_id, answer.member_epoch))
        assert not answer.error_code, answer.error_message
    return answer


def test_a_member_joins_is_described_fenced_and_leaves(broker: str) -> None:
    group, topic = "adapter-streams", "adapter-streams-in"
    ClusterAdmin(broker).create_topics({topic: 2}, SECONDS)
    with streams_coordinator(broker) as coordinator, describes_groups(broker) as describer:
        assert describer.describe_streams(group) is None
        answer = until_assigned(coordinator, group, join(coordinator, group, topic))
        described = describer.describe_streams(group)
        assert described is not None
        (member,) = described.members
        assert tasks_of(member.target_assignment.active_tasks) == tasks_of(answer.active_tasks)
        assert len(tasks_of(answer.active_tasks)) == 2
        assert (member.member_id, member.user_endpoint) == (answer.member_id, Endpoint("localhost", 7070))
        assert member.client_tags == {"zone": "a"}
        assert described.topology is not None
        assert described.topology.subtopologies is not None
        (log,) = described.topology.subtopologies[0].state_changelog_topics
        assert log.name == f"{group}-store-changelog"
        assert describer.types()[group] == "streams"
        behind = StreamsHeartbeatRequest(group, answer.member_id, answer.member_epoch + 5)
        assert coordinator.heartbeat(behind).error_code == FENCED_MEMBER_EPOCH
        stranger = StreamsHeartbeatRequest(group, str(uuid4()), 3)
        assert coordinator.heartbeat(stranger).error_code == UNKNOWN_MEMBER_ID
        assert not coordinator.heartbeat(StreamsHeartbeatRequest(group, answer.member_id, -1)).error_code
        empty = describer.describe_streams(group)
        assert empty is not None
        assert (empty.group_state, empty.members) == ("Empty", ())


def test_a_coordinator_that_is_forgotten_is_looked_up_again(broker: str) -> None:
    group, topic = "adapter-forgotten", "adapter-forgotten-in"
    ClusterAdmin(broker).create_topics({topic: 1}, SECONDS)
    with streams_coordinator(broker) as coordinator:
        answer = join(coordinator, group, topic)
        coordinator._admin.forget_coordinator(group)
        again = coordinator.heartbeat(StreamsHeartbeatRequest(group, answer.member_id, answer.member_epoch))
        assert not again.error_code
        coordinator.heartbeat(StreamsHeartbeatRequest(group, answer.member_id, -1))


def test_partitions_that_do_not_exist_hold_up_no_commit_of_others(broker: str) -> None:
    group, topic = "adapter-absent", "adapter-absent-in"
    ClusterAdmin(broker).create_topics({topic: 1}, SECONDS)
    there, absent = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with streams_coordinator(broker) as coordinator, closing(CommittedOffsets(broker, None, group_id=group)) as offsets:
        answer = join(coordinator, group, topic)
        member = MemberId(answer.member_epoch, answer.member_id, None)
        with pytest.raises(PartitionsAbsent) as deferred:
            coordinator.commit(group, member, {there: 5, absent: 6}, {})
        assert deferred.value.partitions == {absent}
        assert offsets.read([there], SECONDS) == {there: 5}
        coordinator.heartbeat(StreamsHeartbeatRequest(group, answer.member_id, -1))


def test_an_invalid_group_is_an_error_of_ours(broker: str) -> None:
    with describes_groups(broker, timeout_s=5) as describer, pytest.raises(BrokerError, match="describe streams group"):
        describer.describe_streams("")


def test_brokers_that_do_not_know_the_request_refuse_it(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_groups, "HEARTBEAT_API_KEY", 999)
    with streams_coordinator(broker) as coordinator:
        answer = coordinator.heartbeat(StreamsHeartbeatRequest("adapter-old", str(uuid4()), 0))
    assert answer.error_code == UNSUPPORTED_VERSION


def test_no_broker_is_an_error_of_ours() -> None:
    with pytest.raises(BrokerUnavailable), streams_coordinator("127.0.0.1:1", timeout_s=0.5):
        pass
