"""Records on their way to the brokers that are acknowledged together, and what became of them.

One delivery callback for all of them reads the partition off the message, so that a record costs no closure.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from kstreams_assign.adapters.confluent.faults import (
    ABSENT,
    BLAMES_ANOTHER,
    FAULTS,
    FORBIDDEN,
    INVALID,
    PURGED,
    REMEDIES,
    TOO_LARGE,
    describe,
)
from kstreams_assign.adapters.confluent.feed import offset_of, partition_number_of, topic_of
from kstreams_assign.errors import DeliveryFailed, KStreamsAssignError, RecordRefused, TaskMigrated
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.dead_letters import Headers, content_bytes

ANY_PARTITION = -1


class Lost(NamedTuple):
    """A record that was not delivered. ``partition`` -1: none was chosen yet.

    ``headers`` is None if they are unknown, as in a delivery report; ``size`` does not include them then.
    ``suspected``: it or another record of its batch is wrong. ``contents``: as ``RecordRefused`` has them.
    """

    topic: str
    partition: int
    key: bytes | None
    size: int
    error: KafkaError
    contents: frozenset[int]
    headers: Headers | None = None
    suspected: bool = False

    @classmethod
    def of(
        cls,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        error: KafkaError,
    ) -> Lost:
        """Keep of a record what it is known by, and not its value."""
        size, contents = content_bytes(key, value, headers or ()), frozenset({hash((key, value))})
        return cls(topic, partition, key, size, error, contents, headers)

    def fault(self, about: str) -> KStreamsAssignError:
        """Our error for it, the remedy named where waiting is none."""
        code = self.error.code()
        text = f"{about}: {describe(self.error)}"
        if code not in REMEDIES:
            return (TaskMigrated if FAULTS.get(code) is TaskMigrated else DeliveryFailed)(text)
        parts = "key and value" if self.headers is None else "key, value and headers"
        return RecordRefused(
            f"{text}; {parts} of the record have {self.size:,} bytes: {REMEDIES[code]}",
            self.topic,
            self.partition,
            self.key,
            absent=code in ABSENT,
            too_large=code in TOO_LARGE,
            size_bytes=self.size,
            forbidden=code in FORBIDDEN,
            invalid=code in INVALID and not self.suspected,
            untimely=code == KafkaError.INVALID_TIMESTAMP,
            contents=self.contents,
        )


class Flight:
    """Count records that were queued, and take their delivery reports. ``spoil`` is called at a fatal error."""

    def __init__(self, spoil: Callable[[], None]) -> None:
        self._spoil = spoil
        self.on_their_way = 0
        """Records that are neither acknowledged nor reported as lost."""
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._lost: list[Lost] = []

    @property
    def over(self) -> bool:
        """Whether its outcome is known: everything is acknowledged, or a record is lost."""
        return not self.on_their_way or bool(self._lost)

    def take(self) -> dict[TopicPartition, int]:
        """Return the next offsets of the tracked partitions that were written since the last call.

        Raises ``DeliveryFailed``, ``TaskMigrated`` or ``RecordRefused`` if a record was lost since then.
        """
        acknowledged, self._acknowledged = self._acknowledged, {}
        lost, self._lost = self._lost, []
        if lost:
            worst = _worst(lost)
            at = worst.topic if worst.partition == ANY_PARTITION else f"{worst.topic}-{worst.partition}"
            raise worst.fault(f"{len(lost)} records lost, the first of them to {at}")
        return {TopicPartition(*at): offset for at, offset in acknowledged.items()}

    def purged(self) -> dict[str, Lost]:
        """Return by topic one of the records that the client dropped since ``take``."""
        return {record.topic: record for record in self._lost if record.error.code() in PURGED}

    def untracked(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of a record whose offset does not count."""
        self.on_their_way -= 1
        if error is not None:
            self._lose(error, message)

    def tracked(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of a record whose offset counts for ``take``."""
        self.on_their_way -= 1
        if error is not None:
            self._lose(error, message)
        else:
            # Acknowledged in the order of their offsets, so the last one wins.
            self._acknowledged[topic_of(message), partition_number_of(message)] = offset_of(message) + 1

    def _lose(self, error: KafkaError, message: Message) -> None:
        if error.fatal():
            self._spoil()
        number = message.partition()
        partition = ANY_PARTITION if number is None else number
        self._lost.append(Lost.of(topic_of(message), partition, message.key(), message.value(), None, error))


def _worst(lost: list[Lost]) -> Lost:
    """Return the record that is to blame, with the ``contents`` of all that may be.

    Delivery reports have no headers, so it is not known which record of a batch that is too large is the largest.
    A broker refuses all records of a batch because of the largest, or because of those that are not valid. Of the
    latter librdkafka 2.16 names each if there are several, and gives the whole batch the error of a single one.
    """
    refused = [record for record in lost if record.error.code() in REMEDIES]
    worst = max(refused, key=attrgetter("size"), default=lost[0])
    code = worst.error.code()
    alike = [record for record in refused if record.error.code() == code and record.topic == worst.topic]
    if code in TOO_LARGE:
        return worst._replace(contents=frozenset().union(*(record.contents for record in alike)))
    if code not in INVALID or len(alike) == 1:
        return worst
    if any(record.error.code() == BLAMES_ANOTHER for record in lost):
        return worst
    if code == KafkaError.INVALID_RECORD:  # a compacted topic, which takes no record without a key
        worst = next((record for record in alike if record.key is None), worst)
        return worst._replace(suspected=worst.key is not None)
    return worst._replace(suspected=code != KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001  # librdkafka's own code
