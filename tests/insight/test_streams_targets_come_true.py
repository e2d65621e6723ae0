"""What the broker's assignor is predicted to do to a streams group, and what a real broker then does.

The members only heartbeat, so that each join takes a second at most. The order of the members is read from the broker
(StreamsGroupDescribe), as a prediction for a group of others has to read it.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from random import Random
from uuid import UUID

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.assign.streams_group import StreamsGroupInput, predict_join, predict_leave
from kstreams_assign.wire.streams_describe import (
    DESCRIBE_API_KEY,
    StreamsDescribeRequest,
    decode_streams_describe_response,
    encode_streams_describe_request,
)
from kstreams_assign.wire.streams_heartbeat import (
    HEARTBEAT_API_KEY,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    StreamsHeartbeatRequest,
    StreamsTopology,
    decode_streams_heartbeat_response,
    encode_streams_heartbeat_request,
)
from kstreams_assign.wire.streams_structs import StreamsSubtopology, TopicInfo, tasks_of

pytestmark = pytest.mark.timeout(300)

GROUP, WITHIN_S = "streams-targets", 60.0
COORDINATOR_NOT_READY = {14, 15, 16}
SUBTOPOLOGIES = {0: SubtopologyTasks(7, is_stateful=True), 1: SubtopologyTasks(4, is_stateful=False)}
TOPOLOGY = StreamsTopology(
    0,
    (
        StreamsSubtopology("0", ("targets-a",), state_changelog_topics=(TopicInfo(f"{GROUP}-store-changelog"),)),
        StreamsSubtopology("1", ("targets-b",)),
    ),
)


class Group:
    """Members that only heartbeat, over one connection to the only broker."""

    def __init__(self, bootstrap_servers):
        host, port = bootstrap_servers.split(":")
        self.connection = socket.create_connection((host, int(port)), WITHIN_S)
        self.stream = self.connection.makefile("rb")
        self.calls = 0
        self.epochs = {}

    def close(self):
        self.stream.close()
        self.connection.close()

    def call(self, api_key, body):
        self.calls += 1
        frame = struct.pack(">hhih", api_key, 0, self.calls, -1) + b"\0" + body
        self.connection.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", self.stream.read(4))
        return self.stream.read(length)[5:]  # behind the correlation id and the empty tagged fields

    def heartbeat(self, member_id, **fields):
        request = StreamsHeartbeatRequest(GROUP, member_id, fields.pop("epoch", self.epochs.get(member_id)), **fields)
        body = self.call(HEARTBEAT_API_KEY, encode_streams_heartbeat_request(request, 0))
        answer = decode_streams_heartbeat_response(body, 0)
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
        return answer

    def join(self, member):
        answer = self.heartbeat(
            member.member_id,
            epoch=JOIN_EPOCH,
            rebalance_timeout_ms=60_000,
            topology=TOPOLOGY,
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            process_id=member.process_id,
            client_tags={},
        )
        assert answer.error_code in {0, *COORDINATOR_NOT_READY}, answer.error_message
        return not answer.error_code

    def leave(self, member_id):
        assert not self.heartbeat(member_id, epoch=LEAVE_EPOCH).error_code
        del self.epochs[member_id]

    def described(self):
        body = self.call(DESCRIBE_API_KEY, encode_streams_describe_request(StreamsDescribeRequest((GROUP,)), 0))
        return decode_streams_describe_response(body, 0).groups[0]

    def at_rest(self):
        """Heartbeat until the target is of the group's present members; return what an assignor starts from."""
        until(lambda: self._beat() and self._is_assigned())
        members = tuple(
            StreamsMember(
                member.member_id,
                member.process_id,
                tasks_of(member.target_assignment.active_tasks),
                tasks_of(member.target_assignment.standby_tasks),
            )
            for member in self.described().members
        )
        return StreamsGroupInput(members, SUBTOPOLOGIES)

    def _beat(self):
        return all(not self.heartbeat(member_id).error_code for member_id in list(self.epochs))

    def _is_assigned(self):
        group = self.described()
        placed = {task for member in group.members for task in tasks_of(member.target_assignment.active_tasks)}
        return group.group_epoch == group.assignment_epoch and len(placed) == 11


def until(is_so):
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


@pytest.fixture
def group(broker):
    ClusterAdmin(broker).create_topics({"targets-a": 7, "targets-b": 4}, WITHIN_S)
    with describes_groups(broker, {}, WITHIN_S) as describer:
        describer.describe(GROUP)  # a broker makes its topic of groups when it is asked for a coordinator
    group = Group(broker)
    yield group
    group.close()


def test_every_target_of_a_growing_and_shrinking_group_was_predicted(group):
    random = Random(71)
    processes = [str(UUID(int=random.getrandbits(128))) for _ in range(5)]
    members = [StreamsMember(str(UUID(int=random.getrandbits(128))), random.choice(processes)) for _ in range(14)]
    until(lambda: group.join(members[0]))
    present, likely, certain = group.at_rest(), 0, 0
    for number, member in enumerate(members[1:], start=1):
        predicted = predict_join(present, [member])
        group.join(member)
        present = group.at_rest()
        assert present.target in predicted.targets, member
        likely += present.target == predicted.likely
        certain += predicted.is_certain
        if number % 3 == 0:
            leaving = random.choice(present.members).member_id
            predicted = predict_leave(present, [leaving])
            group.leave(leaving)
            present = group.at_rest()
            assert present.target in predicted.targets, leaving
    assert likely >= 11
    assert certain >= 9
