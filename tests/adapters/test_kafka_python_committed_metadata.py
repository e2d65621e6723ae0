"""The metadata beside committed offsets, byte for byte, from any client."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import CommittedMetadata
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, transactional


def test_it_is_read_as_it_was_written_and_empty_where_nothing_was(broker):
    group, topic = f"g-{uuid4().hex}", new_topic(ClusterAdmin(broker), 3)
    plainly, transacted, never = (TopicPartition(topic, number) for number in range(3))
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    producer = transactional(broker)
    producer.begin_transaction()
    offsets = [ClientPartition(*transacted, 7, "in a transaction")]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    consumer.commit(offsets=[ClientPartition(*plainly, 8, "plainly")], asynchronous=False)
    consumer.close()
    metadata = CommittedMetadata(broker, {}, group_id=group, timeout_s=PATIENCE_S, stable=True)
    metadata.connect()
    for _ in range(2):
        texts = metadata.read([plainly, transacted, never])
        assert texts == {plainly: "plainly", transacted: "in a transaction", never: ""}
        assert metadata.read([]) == {}
        metadata.close()


def test_a_stable_read_waits_for_the_end_of_an_open_transaction(broker):
    """A transaction's offsets count once its markers are written, after ``commit_transaction`` has returned."""
    group, at = f"g-{uuid4().hex}", TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    consumer.commit(offsets=[ClientPartition(*at, 7, "before")], asynchronous=False)
    producer = transactional(broker)
    producer.begin_transaction()
    offsets = [ClientPartition(*at, 8, "after")]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()
    latest = CommittedMetadata(broker, {}, group_id=group, timeout_s=PATIENCE_S)
    assert latest.read([at]) == {at: "before"}
    latest.close()
    impatient = CommittedMetadata(broker, {}, group_id=group, timeout_s=2.0, stable=True)
    with pytest.raises(BrokerUnavailable, match=f"committed metadata of {group}.*UnstableOffsetCommit"):
        impatient.read([at])
    impatient.close()
    stable = CommittedMetadata(broker, {}, group_id=group, timeout_s=PATIENCE_S, stable=True)
    stable.connect()
    producer.commit_transaction(PATIENCE_S)
    assert stable.read([at]) == {at: "after"}
    stable.close()
