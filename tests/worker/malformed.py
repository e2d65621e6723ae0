"""Members and leaders that write damaged bytes of the consumer protocol, on a real broker."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol

from kstreams_assign.adapters.kafka_python.join_results import finish_joins
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)

HUGE = struct.pack(">i", 2**31 - 1)
NO_UTF8 = b"\xff\xfe\xc3("


def subscriptions(topic: str) -> Mapping[str, bytes]:
    """Return damaged JoinGroup metadata by the kind of damage; each begins as a member of ``topic`` would write it."""
    name = topic.encode()
    good = ConsumerSubscription(3, (topic,), b"", (TopicPartition(topic, 0),), 5, "rack")
    whole = encode_consumer_subscription(good)
    topics = struct.pack(">hih", 1, 1, len(name)) + name
    return {
        "empty": b"",
        "one byte": b"\0",
        "version alone": b"\0\1",
        "a negative version": b"\xff\xff" + whole[2:],
        "more topics than bytes": b"\0\1" + HUGE + whole[6:],
        "a negative count of topics": b"\0\1\xff\xff\xff\xff" + whole[6:],
        "a topic longer than the bytes": b"\0\1\0\0\0\1\x7f\xff" + name,
        "a topic that is no UTF-8": struct.pack(">hih", 0, 1, 4) + NO_UTF8 + b"\xff\xff\xff\xff",
        "a topic without a name": struct.pack(">hih", 0, 1, 0) + b"\xff\xff\xff\xff",
        "a topic that no broker accepts": struct.pack(">hih", 0, 1, 3) + b"a b" + b"\xff\xff\xff\xff",
        "user-data longer than the bytes": topics + HUGE,
        "no owned partitions": topics + b"\xff\xff\xff\xff",
        "more owned topics than bytes": topics + b"\xff\xff\xff\xff" + HUGE,
        "more owned partitions than bytes": topics + b"\xff\xff\xff\xff" + b"\0\0\0\1\0\1t" + HUGE,
        "cut in the rack": whole[:-2],
        "version 2, cut": b"\0\2" + whole[2:-8],
        "a later version, cut": b"\0\x09" + whole[2:-3],
        "noise": bytes(range(256)) * 4,
        "a text": b"hello, I am a member of this group",
    }


COORDINATOR_FAILS = frozenset(
    {
        "more topics than bytes",
        "a negative count of topics",
        "a topic longer than the bytes",
        "user-data longer than the bytes",
        "noise",
        "a text",
    }
)
"""With such damage Kafka's coordinator (4.3.1) answers UNKNOWN_SERVER_ERROR to JoinGroup until the member leaves."""


class _Writing(AbstractPartitionAssignor):  # type: ignore[misc]
    """Writes the given bytes; as a leader, writes ``assignment`` for each other member."""

    name = "stream"

    def __init__(self, metadata: bytes, assignment: bytes) -> None:
        self._metadata, self._assignment = metadata, assignment
        self.user_data: bytes | None = None
        self.member_id: Callable[[], str] = str

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Any) -> bytes:  # noqa: ARG002
        return self._metadata

    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:  # noqa: ARG002
        own = encode_consumer_assignment(ConsumerAssignment(1))
        return {m.member_id: own if m.member_id == self.member_id() else self._assignment for m in members}

    def on_assignment(self, assignment: Any, generation: int) -> None:  # noqa: ARG002
        self.user_data = bytes(assignment.user_data or b"")


class RawMember:
    """A member of a Streams group that writes bytes of its own choice. ``user_data``: the leader's last answer."""

    def __init__(self, consumer: KafkaConsumer, assignor: _Writing) -> None:
        self._consumer, self._assignor = consumer, assignor
        assignor.member_id = lambda: self.member_id

    @property
    def user_data(self) -> bytes | None:
        return self._assignor.user_data

    @property
    def member_id(self) -> str:
        return str(self._consumer._coordinator._generation.member_id)

    def poll(self) -> None:
        """Join, and stay a member."""
        self._consumer.poll(timeout_ms=200)


@contextmanager
def raw_member(
    broker: str,
    group: str,
    topic: str,
    metadata: bytes,
    assignment: bytes = b"",
    *,
    request_timeout_ms: int = 60_000,
) -> Iterator[RawMember]:
    """Hold a member during the block; then it leaves the group.

    A request that takes longer than ``request_timeout_ms`` costs it its member id, and a leader its leadership.
    """
    assignor = _Writing(metadata, assignment)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker,
        group_id=group,
        enable_auto_commit=False,
        session_timeout_ms=60_000,
        max_poll_interval_ms=120_000,
        request_timeout_ms=request_timeout_ms,
        partition_assignment_strategy=[assignor],
    )
    finish_joins(consumer._coordinator)
    try:
        yield RawMember(consumer, assignor)
    finally:
        consumer.close(autocommit=False)
