"""librdkafka's errors as ours: one table from its codes to ``errors``.

What lives here: the table and the texts. What must not: deciding what to do about an error.
"""

# ruff: noqa: SLF001  (librdkafka's own codes begin with an underscore; the broker's do not)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, KStreamsAssignError, TaskMigrated
from kstreams_assign.model import TopicPartition

PARTITION_EOF = KafkaError._PARTITION_EOF
"""No error: a reader has come to the end of a partition."""

OFFSET_GONE = KafkaError._AUTO_OFFSET_RESET
"""The offset asked for is out of range, with ``auto.offset.reset=error``."""

UNREADABLE = frozenset(
    {
        KafkaError._BAD_MSG,  # a checksum fails
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,  # the batch has an unknown format
        KafkaError.INVALID_MSG,  # the broker itself finds its log damaged
    }
)
"""A batch of records cannot be read. librdkafka reads on behind it, or from any offset."""

ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""There is no such topic or partition, says the broker or the metadata that it sent."""

FAULTS: Mapping[int, type[KStreamsAssignError]] = {
    KafkaError._INVALID_ARG: ConfigError,
    KafkaError._UNKNOWN_PROTOCOL: ConfigError,
    # No broker answered, or a broker that cannot answer now: librdkafka itself tries all of these again.
    KafkaError._ALL_BROKERS_DOWN: BrokerUnavailable,
    KafkaError._DESTROY_BROKER: BrokerUnavailable,  # a bootstrap address gave way to a broker with a request under way
    KafkaError._NOENT: BrokerUnavailable,  # of all partitions asked about none has a leader
    KafkaError._RESOLVE: BrokerUnavailable,
    KafkaError._TIMED_OUT: BrokerUnavailable,
    KafkaError._TIMED_OUT_QUEUE: BrokerUnavailable,
    KafkaError._TRANSPORT: BrokerUnavailable,
    KafkaError._WAIT_COORD: BrokerUnavailable,
    KafkaError.BROKER_NOT_AVAILABLE: BrokerUnavailable,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: BrokerUnavailable,
    KafkaError.COORDINATOR_NOT_AVAILABLE: BrokerUnavailable,
    KafkaError.FENCED_LEADER_EPOCH: BrokerUnavailable,
    KafkaError.KAFKA_STORAGE_ERROR: BrokerUnavailable,
    KafkaError.LEADER_NOT_AVAILABLE: BrokerUnavailable,
    KafkaError.NETWORK_EXCEPTION: BrokerUnavailable,
    KafkaError.NOT_CONTROLLER: BrokerUnavailable,
    KafkaError.NOT_COORDINATOR: BrokerUnavailable,
    KafkaError.NOT_ENOUGH_REPLICAS: BrokerUnavailable,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: BrokerUnavailable,
    KafkaError.NOT_LEADER_FOR_PARTITION: BrokerUnavailable,
    KafkaError.OFFSET_NOT_AVAILABLE: BrokerUnavailable,
    KafkaError.REPLICA_NOT_AVAILABLE: BrokerUnavailable,
    KafkaError.REQUEST_TIMED_OUT: BrokerUnavailable,
    KafkaError.UNKNOWN_LEADER_EPOCH: BrokerUnavailable,
    KafkaError.UNSTABLE_OFFSET_COMMIT: BrokerUnavailable,  # a transaction is about to end
    # Another producer took over under the same transactional id.
    KafkaError._FENCED: TaskMigrated,
    KafkaError.INVALID_PRODUCER_EPOCH: TaskMigrated,
    KafkaError.PRODUCER_FENCED: TaskMigrated,
}
"""Codes that are not here are ``BrokerError``: the broker refused, and the text says why."""

PASSING = frozenset(code for code, kind in FAULTS.items() if kind is BrokerUnavailable)
"""What passes by itself: readers and producers of librdkafka go on trying, questions may be asked again."""

FAILED_READS = frozenset({KafkaError.UNKNOWN, KafkaError.INCONSISTENT_TOPIC_ID})
"""A broker failed at one fetch, or at one look-up of offsets. The next may succeed, so readers go on, as Java's do.

``UNKNOWN`` is Kafka's ``UNKNOWN_SERVER_ERROR``: any exception that the broker does not expect. To a producer or a
question of another kind these codes are errors.
"""

_TOO_LARGE = (
    "raise max.message.bytes of the topic (and message.max.bytes under client), write smaller values, "
    "or set batch.size under client below the topic's limit"
)
_MISSING = "create it, with as many partitions as are written to"
_FORBIDDEN = "allow this client to write there"
_INVALID = "a compacted topic takes no record without a key, and a broker no timestamp that is far off"

REMEDIES: Mapping[int, str] = {
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    KafkaError._UNKNOWN_TOPIC: _MISSING,
    KafkaError._UNKNOWN_PARTITION: _MISSING,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _MISSING,
    KafkaError.TOPIC_EXCEPTION: _MISSING,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.INVALID_RECORD: _INVALID,
    KafkaError.INVALID_TIMESTAMP: _INVALID,
}
"""Why a broker refuses a record and will refuse it again -> the fix."""

FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
"""The topic takes no record from this client."""

INVALID = frozenset({KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP, KafkaError._UNKNOWN_PARTITION})
"""The topic takes other records, but not this one."""

BLAMES_ANOTHER = KafkaError._INVALID_DIFFERENT_RECORD
"""A broker named the records of a batch that are wrong, and this one was beside them."""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""The client dropped the record, for example as its transaction had failed."""

TOO_LARGE = frozenset(code for code, remedy in REMEDIES.items() if remedy == _TOO_LARGE)


class UnreadableRecords(BrokerError):
    """Records of ``partition`` cannot be read from ``offset`` on, however often they are fetched from this broker."""

    def __init__(self, partition: TopicPartition, offset: int, error: KafkaError) -> None:
        super().__init__(
            f"{partition} cannot be read from offset {offset} on: {describe(error)}; let a broker whose replica is "
            "intact lead the partition"
        )
        self.partition = partition
        self.offset = offset


def fault(error: KafkaError, about: str, otherwise: type[KStreamsAssignError] = BrokerError) -> KStreamsAssignError:
    """Our error for ``error``; ``about`` says what was being done, and to which partition."""
    return FAULTS.get(error.code(), otherwise)(f"{about}: {describe(error)}")


def describe(error: KafkaError) -> str:
    """librdkafka's text and the code's name: ``Local: Unknown partition (_UNKNOWN_PARTITION)``."""
    return f"{error.str()} ({error.name()})"


@contextmanager
def translating(about: str, otherwise: type[KStreamsAssignError] = BrokerError) -> Iterator[None]:
    """Raise ours instead of ``KafkaException``, as ``fault`` chooses it."""
    try:
        yield
    except KafkaException as raised:
        raise fault(raised.args[0], about, otherwise) from raised
