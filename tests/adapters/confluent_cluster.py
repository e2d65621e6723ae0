"""Topics with names of their own, and records written by the raw client, for the tests of ``adapters.confluent``."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TypeVar
from uuid import uuid4

from confluent_kafka import Producer
from kafka import KafkaProducer

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.model import TopicPartition

T = TypeVar("T")

PATIENCE_S = 60.0
"""Enough for a busy machine; nothing waits this long when all is well."""


def new_topic(admin: ClusterAdmin, partitions: int, **config: str) -> str:
    """A topic of this name only; ``config`` with underscores for dots."""
    name = f"t-{uuid4().hex[:12]}"
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics({name: partitions}, PATIENCE_S, configs={name: dotted})
    return name


def put(broker: str, at: TopicPartition, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Write records the plain way and wait for them."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 0})
    for key, value in records:
        producer.produce(at.topic, value, key, at.partition)
    assert producer.flush(PATIENCE_S) == 0


class NotUtf8(str):
    """The name of a header that kafka-python writes as bytes which are not UTF-8, as any C client may."""

    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        return b"\xff\xfe" + str.encode(self)


def put_with_headers(
    broker: str, at: TopicPartition, records: Iterable[tuple[bytes, Sequence[tuple[str, bytes]]]]
) -> None:
    """Write a record for each key and its headers, whose names may be ``NotUtf8``, and wait for them."""
    with closing(KafkaProducer(bootstrap_servers=broker)) as producer:
        sent = [
            producer.send(at.topic, value=b"v", key=key, partition=at.partition, headers=list(headers))
            for key, headers in records
        ]
        for future in sent:
            future.get(PATIENCE_S)


def transactional(broker: str) -> Producer:
    """A raw producer that is ready to begin a transaction."""
    producer = Producer({"bootstrap.servers": broker, "transactional.id": uuid4().hex})
    producer.init_transactions(PATIENCE_S)
    return producer


def until(step: Callable[[], T], enough: Callable[[T], bool]) -> T:
    """Repeat ``step``, which waits by itself, until its answer is ``enough``."""
    deadline = time.monotonic() + PATIENCE_S
    while not enough(answer := step()):
        assert time.monotonic() < deadline, f"never came to be enough: {answer}"
    return answer


def closed_port() -> str:
    """An address of this machine where no program listens."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"
