"""Partitions that the brokers do not know, by their answers to OffsetCommit.

A topic was deleted, or created again with fewer partitions; or the broker that was asked has not heard of a new topic
yet. Either way the offsets of all other partitions are committed (Kafka: ``KafkaApis.handleOffsetCommitRequest``).
kafka-python would repeat the whole commit until its time is over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.errors import UnknownTopicOrPartitionError

from kstreams_assign.errors import PartitionsAbsent
from kstreams_assign.model import TopicPartition


def take_absent(answer: Any) -> frozenset[TopicPartition]:
    """Return the partitions that the brokers do not know, and take that error out of the answer."""
    absent = set()
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code == UnknownTopicOrPartitionError.errno:
                each.error_code = 0
                absent.add(TopicPartition(topic.name, each.partition_index))
    return frozenset(absent)


def refuse_absent(absent: Collection[TopicPartition]) -> None:
    """Raise ``PartitionsAbsent`` for these, if there are some."""
    if absent:
        raise PartitionsAbsent(f"commit offsets: the brokers do not know {', '.join(map(str, sorted(absent)))}", absent)
