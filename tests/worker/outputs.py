"""The records in the output topic of ``tests.worker.app`` as a committed reader sees them, and the expected ones."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from tests.worker.app import PARTITIONS, App

Outputs = Counter[tuple[bytes | None, bytes | None]]
"""Key and value of a record -> how often it is there."""


def committed_outputs(app: App) -> Outputs:
    """Return all outputs that a committed reader sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": app.broker,
            "group.id": "reads-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ClientPartition(f"{app.name}-counts", p, 0) for p in range(PARTITIONS)])
    outputs: Outputs = Counter()
    at_end: set[int] = set()  # an end that moves on is reported again
    while len(at_end) < PARTITIONS:
        for message in consumer.consume(1_000, 1.0):
            error = message.error()
            if error is None:
                outputs[message.key(), message.value()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    consumer.close()
    return outputs


def each_once(app: App) -> Outputs:
    """Return the expected outputs: 1, 2, 3, ... for each word, up to how often it was sent."""
    return Counter({(word, b"%d" % n): 1 for word, times in app.sent.items() for n in range(1, times + 1)})
