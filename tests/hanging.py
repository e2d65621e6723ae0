"""Hanging transactions on a real broker: their coordinator left them open, as if it died between two markers.

A client writes to the coordinator's log (brokers allow this to a client named ``__admin_client``). Then the broker is
killed and restarted, and loads these records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import TRANSACTIONS_TOPIC, kept_in
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.transaction_log import STATES, encode_transaction_key

PATIENCE_S = 60.0
STATE_AT = 16
"""The offset of the state in a value: after version, producer id, epoch and timeout."""


@dataclass(frozen=True)
class Left:
    """A transaction: its records, and the states to append to its coordinator's log. Without states it stays open."""

    transactional_id: str
    records: Mapping[TopicPartition, Sequence[tuple[bytes, bytes]]]
    states: Sequence[str] = ("PrepareCommit", "CompleteCommit")
    offsets: Mapping[TopicPartition, int] | None = None
    group: str = ""


def own_id(word: str) -> str:
    """Return the transactional id of a process of an application: ``orders-one`` is one process of ``orders``."""
    application_id, _, process = word.partition("-")
    return f"{application_id}-{uuid5(NAMESPACE_OID, process)}"


def leave(broker: LocalBroker, transactions: Iterable[Left]) -> list[Producer]:
    """Begin the transactions, write the log, restart the broker. Keep the producers: they hold transactions open."""
    left = list(transactions)
    producers = [_begin(broker.bootstrap_servers, transaction) for transaction in left]
    for transaction in left:
        if transaction.states:
            _write_log(broker.bootstrap_servers, transaction)
    broker.kill()
    broker.restart()
    return producers


def read_committed(servers: str, partition: TopicPartition) -> list[bytes]:
    """Return the values that a ``read_committed`` consumer gets."""
    settings = {"group.id": "reading", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    return [value for message in _all(servers, partition, settings) if (value := message.value()) is not None]


def _begin(servers: str, left: Left) -> Producer:
    settings = {"bootstrap.servers": servers, "transactional.id": left.transactional_id}
    producer = Producer({**settings, "transaction.timeout.ms": 600_000, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for at, records in left.records.items():
        for key, value in records:
            producer.produce(at.topic, value, key, partition=at.partition)
    assert producer.flush(PATIENCE_S) == 0
    if left.offsets:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": left.group})
        committed = [ClientPartition(*at, offset) for at, offset in left.offsets.items()]
        producer.send_offsets_to_transaction(committed, consumer.consumer_group_metadata(), PATIENCE_S)
        consumer.close()
    return producer


def _write_log(servers: str, left: Left) -> None:
    producer = Producer({"bootstrap.servers": servers, "client.id": "__admin_client", "log_level": 0})
    where = kept_in(ClusterAdmin(servers), TRANSACTIONS_TOPIC, left.transactional_id, PATIENCE_S)
    key = encode_transaction_key(left.transactional_id)
    value = [message.value() for message in _all(servers, where, {"group.id": "log"}) if message.key() == key][-1]
    assert value is not None
    refused: list[KafkaError | None] = []
    for state in left.states:
        record = value[:STATE_AT] + bytes([STATES.index(state)]) + value[STATE_AT + 1 :]
        producer.produce(where.topic, record, key, where.partition, on_delivery=lambda error, _: refused.append(error))
    producer.flush(PATIENCE_S)
    assert refused == [None] * len(left.states)


def _all(servers: str, partition: TopicPartition, settings: Mapping[str, str]) -> list[Message]:
    given = {"auto.offset.reset": "earliest", **settings, "bootstrap.servers": servers, "enable.partition.eof": True}
    consumer = Consumer(given)
    consumer.assign([ClientPartition(*partition, 0)])
    messages: list[Message] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, partition
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # its only name
                return messages
    finally:
        consumer.close()
