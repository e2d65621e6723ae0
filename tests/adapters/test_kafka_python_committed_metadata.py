"""The metadata beside committed offsets, byte for byte, whoever committed it."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import CommittedMetadata
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
    metadata = CommittedMetadata(broker, {}, group_id=group, timeout_s=PATIENCE_S)
    metadata.connect()
    for _ in range(2):
        told = metadata.read([plainly, transacted, never])
        assert told == {plainly: "plainly", transacted: "in a transaction", never: ""}
        assert metadata.read([]) == {}
        metadata.close()
