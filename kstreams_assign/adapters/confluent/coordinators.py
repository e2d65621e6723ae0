"""Where a group or a transactional id is kept: the partition of an internal topic whose leader is its coordinator."""

from __future__ import annotations

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.assign.java_order import text_hash
from kstreams_assign.errors import BrokerError
from kstreams_assign.model import TopicPartition

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"


def coordinator_partition(name: str, partitions: int) -> int:
    """Of a group, or of a transactional id. Kafka: ``Utils.abs(name.hashCode()) % partitions``."""
    unsigned = text_hash(name)
    signed = unsigned - (unsigned >> 31 << 32)
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def kept_in(admin: ClusterAdmin, topic: str, name: str, timeout_s: float) -> TopicPartition:
    """The partition. Raises ``BrokerUnavailable``, and ``BrokerError`` where the topic is not to be seen."""
    partitions = admin.partition_counts([topic], timeout_s).get(topic, 0)
    if not partitions:
        raise BrokerError(f"{topic} does not exist, or may not be seen by this user")
    return TopicPartition(topic, coordinator_partition(name, partitions))
