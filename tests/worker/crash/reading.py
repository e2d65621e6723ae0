"""Read topics, committed offsets and task folders with the bare client libraries, without the product's readers."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import rocksdict
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from kstreams_assign.adapters.confluent.faults import PASSING
from tests.worker.crash.app import PARTITIONS, STORE

WAIT_S = 50.0
_TASK_FOLDER = "0_{}"


class Line(NamedTuple):
    """One record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Folder(NamedTuple):
    """One task's state on disk. ``offset``: the next changelog offset that the store records, or None."""

    where: str
    partition: int
    offset: int | None
    entries: dict[bytes, bytes]


def read_topics(servers: str, topics: Iterable[str], *, committed: bool) -> dict[str, list[Line]]:
    """Return all records of these topics, in partition order; with ``committed`` as a committed reader sees them."""
    lines: dict[str, list[Line]] = {topic: [] for topic in topics}
    settings = {
        "bootstrap.servers": servers,
        "group.id": "reading-alone",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    with closing(Consumer(settings)) as consumer:
        places = [TopicPartition(topic, partition, 0) for topic in lines for partition in range(PARTITIONS)]
        consumer.assign(places)
        left = {(place.topic, place.partition) for place in places}
        while left:
            messages = consumer.consume(1, WAIT_S) + consumer.consume(10_000, 0)
            assert messages, f"the ends of {sorted(left)} did not come"
            for message in messages:
                if message.error() is None:
                    lines[message.topic()].append(
                        Line(message.partition(), message.offset(), message.key(), message.value())
                    )
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    left.discard((message.topic(), message.partition()))  # an end that moves on is reported again
    return lines


def settled(admin: AdminClient, topics: Iterable[str]) -> bool:
    """Whether no transaction is open in these topics; markers come after a commit, partition by partition."""
    return all(end_offsets(admin, topic) == end_offsets(admin, topic, committed=True) for topic in topics)


def end_offsets(admin: AdminClient, topic: str, *, committed: bool = False) -> dict[int, int]:
    """Return high watermarks; with ``committed`` last stable offsets. Asks again what passes, such as a new leader."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    deadline = time.monotonic() + WAIT_S
    while True:
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=WAIT_S)
        try:
            return {at.partition: answer.result(WAIT_S).offset for at, answer in answers.items()}
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        threading.Event().wait(0.05)
        with suppress(KafkaException):  # what is in the way of both, the question says
            admin.list_topics(timeout=WAIT_S)  # else it asks the same leaders again


def read_folders(state: Path) -> list[Folder]:
    """Read each task's database below a state directory that no process has open, by its layout on disk."""
    return [
        _read_folder(path, partition)
        for partition in range(PARTITIONS)
        for path in state.glob(f"*/{_TASK_FOLDER.format(partition)}")
        if (path / "CURRENT").exists()
    ]


def _read_folder(path: Path, partition: int) -> Folder:
    options = rocksdict.Options(raw_mode=True)
    families = {name: rocksdict.Options(raw_mode=True) for name in rocksdict.Rdict.list_cf(str(path), options)}
    read_only = rocksdict.AccessType.read_only()
    database = rocksdict.Rdict(str(path), options, {k: v for k, v in families.items() if k != "default"}, read_only)
    try:
        system = dict(database.items())
        offsets = [struct.unpack(">Q", value)[0] for key, value in system.items() if key.startswith(b"o")]
        assert len(offsets) <= 1, offsets
        entries: dict[bytes, bytes] = {}
        if name := system.get(b"c" + STORE.encode()):
            family = database.get_column_family(name.decode())
            entries = dict(family.items())
            family.close()
    finally:
        database.close()
    return Folder(str(path), partition, offsets[0] if offsets else None, entries)
