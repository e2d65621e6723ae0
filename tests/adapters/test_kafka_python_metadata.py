"""The topics whose metadata a member's client asks for, on a broker."""

from __future__ import annotations

from uuid import uuid4

import pytest
from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataRequest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until


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
    client = GroupClient(
        group_id=f"g-{uuid4().hex}",
        bootstrap_servers=broker,
        topics=topics,
        protocol_name="stream",
        protocolist=protocol,
        settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
    )
    counts = {topic: count for topic, count in client.partition_counts().items() if count}
    assert counts == dict.fromkeys(topics - {"absent"}, 1)
    until(lambda: client.join(1))
    client.close(PATIENCE_S, leave=True)
    assert protocol.led == 1
    assert topics in asked
    assert all(each in (set(), topics) for each in asked)
