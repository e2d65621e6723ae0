"""The topics whose metadata a member's client asks for, on a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.metadata import MetadataRequest
from kafka.util import WeakMethod

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until


def joining(broker: str, topics: Iterable[str], protocol: Protocol, pattern: str | None = None) -> GroupClient:
    return GroupClient(
        group_id=f"g-{uuid4().hex}",
        bootstrap_servers=broker,
        topics=topics,
        pattern=pattern,
        protocol_name="stream",
        protocolist=protocol,
        settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
    )


@pytest.mark.parametrize("absent", [False, True])
def test_a_member_asks_for_its_own_topics_and_joins_once(
    broker: str, absent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may have a hundred thousand partitions of others."""
    asked: list[set[str] | None] = []
    make = ClusterMetadata.metadata_request

    def noted(self: ClusterMetadata) -> MetadataRequest:
        asked.append(None if self.need_all_topic_metadata else set(self._topics))
        return make(self)

    admin = ClusterAdmin(broker)
    new_topic(admin, 1)
    topics = {new_topic(admin, 1), *(["absent"] if absent else [])}
    protocol = Protocol()
    monkeypatch.setattr(ClusterMetadata, "metadata_request", noted)
    client = joining(broker, topics, protocol)
    counts = {topic: count for topic, count in client.partition_counts().items() if count}
    assert counts == dict.fromkeys(topics - {"absent"}, 1)
    until(lambda: client.join(1))
    client.close(PATIENCE_S, leave=True)
    assert protocol.led == 1
    assert topics in asked
    assert all(each in (set(), topics) for each in asked)


@pytest.mark.parametrize("by_pattern", [False, True])
def test_metadata_that_is_read_while_the_member_is_made_does_not_end_its_look_ups(
    broker: str, by_pattern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's I/O thread calls its listeners one after the other, and none may be added meanwhile."""
    added, add, handle = threading.Event(), ClusterMetadata.add_listener, ConsumerCoordinator._handle_metadata_update

    def noted(self: ClusterMetadata, listener: Any) -> None:
        add(self, listener)
        if not isinstance(listener, WeakMethod):  # which is the client's own
            added.set()

    def slow(self: ConsumerCoordinator, cluster: ClusterMetadata) -> None:
        added.wait(1)
        handle(self, cluster)

    topic = new_topic(ClusterAdmin(broker), 1)
    protocol = Protocol()
    monkeypatch.setattr(ConsumerCoordinator, "_handle_metadata_update", slow)
    monkeypatch.setattr(ClusterMetadata, "add_listener", noted)
    client = joining(broker, [topic], protocol, topic if by_pattern else None)
    until(lambda: client.join(1))
    assert protocol.led
    read = client._updates
    client._coordinator._cluster.request_update()
    until(lambda: client._updates > read)
    client.close(PATIENCE_S, leave=True)
