"""First offsets and ends of many partitions; a leader that does not answer delays only its own partitions.

librdkafka answers a call as a whole and waits for partitions without a leader until the call's deadline. So partitions
without a leader are left out, and each leader gets a call of its own. What must not live here: asking
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kstreams_assign.adapters.confluent.faults import ABSENT, FAILED_READS, PASSING, fault
from kstreams_assign.model import TopicPartition

FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LAST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

LOOK_UP_S = 2.0
"""librdkafka 2.16 has at least so much time to look up offsets. It looks for the leaders in the caller's thread, and if
its time is up before it has done so, it uses memory that it has freed, and the process ends."""

Bounds = dict[TopicPartition, tuple[int, int]]


def ask_each_leader(
    admin: AdminClient, partitions: Iterable[TopicPartition], topics: Mapping[str, Any], timeout_s: float
) -> Bounds:
    """First offset and high watermark of those whose leader answers in time.

    Raises ``BrokerError`` for what it refuses.

    ``topics`` are the client's descriptions of all of them.
    """
    asked = [
        _ask(admin, of_leader, spec, timeout_s)
        for of_leader in _by_leader(partitions, topics).values()
        for spec in (FIRST, LAST)
    ]
    wait([future for answers in asked for future in answers.values()], timeout_s)
    first, last = _offsets(asked[0::2]), _offsets(asked[1::2])
    return {partition: (first[partition], last[partition]) for partition in first.keys() & last.keys()}


def list_offsets(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    timeout_s: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Mapping[ClientPartition, Future[Any]]:
    """Ask for offsets; a future for each partition, done after ``timeout_s`` or ``LOOK_UP_S``, whichever is longer."""
    asked = {ClientPartition(*partition): spec for partition in partitions}
    return admin.list_offsets(asked, isolation_level=isolation, request_timeout=max(LOOK_UP_S, timeout_s))


def _by_leader(
    partitions: Iterable[TopicPartition], topics: Mapping[str, Any]
) -> Mapping[int, Iterable[TopicPartition]]:
    partitions_by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        leader = topics[partition.topic].partitions[partition.partition].leader
        if leader is not None:
            partitions_by_leader[leader.id].append(partition)
    return partitions_by_leader


def _ask(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec, timeout_s: float
) -> Mapping[TopicPartition, Future[Any]]:
    answers = list_offsets(admin, partitions, spec, timeout_s)
    return {TopicPartition(at.topic, at.partition): future for at, future in answers.items()}


def _offsets(asked: Iterable[Mapping[TopicPartition, Future[Any]]]) -> Mapping[TopicPartition, int]:
    answered = [(at, future) for answers in asked for at, future in answers.items() if future.done()]
    offsets = {at: _offset(at, future) for at, future in answered}
    # Around a broker's restart librdkafka 2.16 answers -1001 (no offset), without an error.
    return {at: offset for at, offset in offsets.items() if offset is not None and offset >= 0}


def _offset(at: TopicPartition, future: Future[Any]) -> int | None:
    try:
        return int(future.result().offset)
    except KafkaException as raised:
        if raised.args[0].code() in PASSING | ABSENT | FAILED_READS:
            return None
        raise fault(raised.args[0], f"offset of {at}") from raised
