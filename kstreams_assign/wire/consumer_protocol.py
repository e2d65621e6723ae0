"""The consumer protocol: what each classic consumer sends in JoinGroup and receives in SyncGroup, with the user-data.

Both values (Kafka: ``ConsumerPartitionAssignor.Subscription`` and ``Assignment``, versions 0-3) and their translation.
Layouts are in ``protocol/``; the user-data stays opaque here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.columns import topic_partitions
from kstreams_assign.wire.compile import Columns, Record, layout
from kstreams_assign.wire.primitives import INT16, Source

LATEST_CONSUMER_VERSION = 3
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """One consumer's part of JoinGroup. Collections are in the order of the bytes, partitions grouped by topic.

    ``generation_id`` is the generation that assigned ``owned_partitions``, -1 for none.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """One consumer's part of SyncGroup. Partitions are in the order of the bytes, grouped by topic."""

    version: int
    assigned_partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def decode_consumer_subscription(data: bytes) -> ConsumerSubscription:
    """Decode JoinGroup's ``metadata``. A version above 3 is read as 3, as in Java. Raises ``MalformedUserData``."""
    record = _read(data, "ConsumerProtocolSubscription")
    return ConsumerSubscription(
        version=record["version"],
        topics=tuple(record["topics"]),
        user_data=record["user_data"],
        owned_partitions=_flat(record.get("owned_partitions", {"topic": (), "partitions": ()})),
        generation_id=record.get("generation_id", NO_GENERATION),
        rack_id=record.get("rack_id"),
    )


def encode_consumer_subscription(value: ConsumerSubscription) -> bytes:
    """Encode ``value``; fields that its version (0-3) lacks are left out. Raises ``ConfigError``."""
    record = {
        "version": value.version,
        "topics": value.topics,
        "user_data": value.user_data,
        "owned_partitions": _by_topic(value.owned_partitions),
        "generation_id": value.generation_id,
        "rack_id": value.rack_id,
    }
    return layout("ConsumerProtocolSubscription", value.version).write(record)


def decode_consumer_assignment(data: bytes) -> ConsumerAssignment:
    """Decode SyncGroup's ``assignment``. A version above 3 is read as 3, as in Java. Raises ``MalformedUserData``."""
    record = _read(data, "ConsumerProtocolAssignment")
    return ConsumerAssignment(record["version"], _flat(record["assigned_partitions"]), record["user_data"])


def encode_consumer_assignment(value: ConsumerAssignment) -> bytes:
    """Encode ``value`` in one of the versions 0-3. Raises ``ConfigError``."""
    record = {
        "version": value.version,
        "assigned_partitions": _by_topic(value.assigned_partitions),
        "user_data": value.user_data,
    }
    return layout("ConsumerProtocolAssignment", value.version).write(record)


def _read(data: bytes, message: str) -> Record:
    source = Source(data, message)
    version = source.number(INT16, "version")
    if version < 0:
        raise source.malformed("version", f"{version} is below 0")
    record, _ = layout(message, min(version, LATEST_CONSUMER_VERSION)).read(data)
    return record


def _flat(topics: Columns) -> tuple[TopicPartition, ...]:
    flat: list[TopicPartition] = []
    for topic, partitions in zip(topics["topic"], topics["partitions"], strict=True):
        flat += topic_partitions(repeat(topic, len(partitions)), partitions)
    return tuple(flat)


def _by_topic(held: Iterable[TopicPartition]) -> Columns:
    """Group partitions as Java writes them: each topic once, where it first appears."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in held:
        by_topic.setdefault(topic, []).append(partition)
    return {"topic": list(by_topic), "partitions": list(by_topic.values())}
