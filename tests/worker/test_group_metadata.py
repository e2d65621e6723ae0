"""A program with a transactional producer of its own commits under our membership."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign import Assignment, Config, GroupMember, SubtopologyShape, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, transactional, until


def test_offsets_sent_under_this_membership_are_taken_and_those_of_a_generation_before_are_not(broker: str) -> None:
    at = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    config = Config(f"group-of-{at.topic}", broker, processing_guarantee="exactly_once_v2")
    with GroupMember(config, [SubtopologyShape((at.topic,), ())], uuid4()) as member:
        until(lambda: member.poll(0.5), lambda event: isinstance(event, Assignment))
        member.let_go()
        producer = transactional(broker)
        metadata = member.group_metadata()
        stale = metadata[:7] + bytes([metadata[7] - 1]) + metadata[8:]
        for told, offset in ((stale, 3), (metadata, 5)):
            producer.begin_transaction()
            if told is stale:
                with pytest.raises(KafkaException, match="ILLEGAL_GENERATION"):
                    producer.send_offsets_to_transaction([ClientPartition(*at, offset)], told, PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.send_offsets_to_transaction([ClientPartition(*at, offset)], told, PATIENCE_S)
                producer.commit_transaction(PATIENCE_S)
        assert member.committed([at], PATIENCE_S) == {at: 5}
