"""Brokers that create each topic that a client asks about, as Kafka's brokers do by default."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient
from kstreams_assign.local import LocalBroker
from tests.adapters.confluent_cluster import PATIENCE_S
from tests.adapters.test_kafka_python_join_results import Protocol
from tests.conftest import SHARED


@pytest.fixture
def creating(broker: str) -> Iterator[str]:  # noqa: ARG001  # the part
    with LocalBroker(settings={**SHARED, "auto.create.topics.enable": "true"}) as local_broker:
        yield local_broker.bootstrap_servers


def test_a_member_creates_no_topic_by_asking_for_it(creating: str) -> None:
    """Created so, a repartition topic would have the wrong number of partitions, and a misspelt source would exist."""
    client = GroupClient(
        group_id=f"g-{uuid4().hex}",
        bootstrap_servers=creating,
        topics=["absent"],
        protocol_name="stream",
        protocolist=Protocol(),
        settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
    )
    assert client.partition_counts() == {"absent": 0}, "the brokers have answered, and know no such topic"
    assert "absent" not in ClusterAdmin(creating).topics(PATIENCE_S)
    client.close(PATIENCE_S, leave=True)
