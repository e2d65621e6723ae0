"""The records of ``__consumer_offsets`` about classic groups: committed offsets, and a group's generations.

Their keys and values, and the translation. Layouts are in ``protocol/``; the topic is read elsewhere. A key begins
with the type of its record. Groups of the newer protocols (KIP-848, KIP-932, KIP-1071) write types of their own into
the same topic; those become ``OtherKey``. A record without a value deletes its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from kstreams_assign.wire.compile import Columns, Record, holds, layout, valid_versions
from kstreams_assign.wire.fields import TAGGED
from kstreams_assign.wire.primitives import INT16, Source

UNKNOWN = -1
"""A time or an epoch that a version does not contain."""


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """The committed offset of one partition in one group. ``type`` is 1, or 0 from before Kafka 0.9."""

    group: str
    topic: str
    partition: int
    type: int = 1


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """A classic group."""

    group: str
    type: int = 2


@dataclass(frozen=True, slots=True)
class OtherKey:
    """A record that is not about a classic group."""

    type: int


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A committed offset. Times are wall-clock; ``tagged_fields`` are unknown ones, by tag."""

    version: int
    offset: int
    metadata: str = ""
    commit_timestamp_ms: int = UNKNOWN
    expire_timestamp_ms: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    topic_id: UUID | None = None
    tagged_fields: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredMember:
    """One member of a generation: its consumer protocol's subscription and assignment, as bytes."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    rebalance_timeout_ms: int = UNKNOWN
    group_instance_id: str | None = None
    tagged_fields: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One completed generation of a group; an empty group has no protocol and no leader."""

    version: int
    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    members: tuple[StoredMember, ...] = ()
    current_state_timestamp_ms: int = UNKNOWN
    tagged_fields: Mapping[int, bytes] = field(default_factory=dict)


def decode_offsets_key(data: bytes) -> OffsetCommitKey | GroupMetadataKey | OtherKey:
    """Decode a record's key. Raises ``MalformedUserData``, but never for an unknown type."""
    source = Source(data, "__consumer_offsets key")
    kind = source.number(INT16, "type")
    if holds(valid_versions("OffsetCommitKey"), kind):
        return OffsetCommitKey(**layout("OffsetCommitKey", kind).read(data)[0])
    if holds(valid_versions("GroupMetadataKey"), kind):
        return GroupMetadataKey(**layout("GroupMetadataKey", kind).read(data)[0])
    return OtherKey(kind)


def encode_offsets_key(key: OffsetCommitKey | GroupMetadataKey) -> bytes:
    """Encode a key. Raises ``ConfigError``."""
    record = {part.name: getattr(key, part.name) for part in fields(key)}
    return layout(type(key).__name__, key.type).write(record)


def decode_offset_commit(data: bytes) -> OffsetCommit:
    """Decode the value under an ``OffsetCommitKey``, versions 0-4. Raises ``MalformedUserData``."""
    record = _read(data, "OffsetCommitValue")
    tagged: dict[Any, Any] = record.get(TAGGED, {})
    return OffsetCommit(
        version=record["version"],
        offset=record["offset"],
        metadata=record["metadata"],
        commit_timestamp_ms=record["commit_timestamp"],
        expire_timestamp_ms=record.get("expire_timestamp", UNKNOWN),
        leader_epoch=record.get("leader_epoch", UNKNOWN),
        topic_id=tagged.pop("topic_id", None),
        tagged_fields=tagged,
    )


def encode_offset_commit(value: OffsetCommit) -> bytes:
    """Encode ``value``; fields that its version (0-4) lacks are left out. Raises ``ConfigError``."""
    topic_id = {} if value.topic_id is None else {"topic_id": value.topic_id}
    record: Record = {
        "version": value.version,
        "offset": value.offset,
        "metadata": value.metadata,
        "commit_timestamp": value.commit_timestamp_ms,
        "expire_timestamp": value.expire_timestamp_ms,
        "leader_epoch": value.leader_epoch,
        TAGGED: {**value.tagged_fields, **topic_id},
    }
    return layout("OffsetCommitValue", value.version).write(record)


def decode_group_metadata(data: bytes) -> GroupMetadata:
    """Decode the value under a ``GroupMetadataKey``, versions 0-4. Raises ``MalformedUserData``."""
    record = _read(data, "GroupMetadataValue")
    return GroupMetadata(
        version=record["version"],
        protocol_type=record["protocol_type"],
        generation=record["generation"],
        protocol=record["protocol"],
        leader=record["leader"],
        members=_members(record["members"]),
        current_state_timestamp_ms=record.get("current_state_timestamp", UNKNOWN),
        tagged_fields=record.get(TAGGED, {}),
    )


def encode_group_metadata(value: GroupMetadata) -> bytes:
    """Encode ``value``; fields that its version (0-4) lacks are left out. Raises ``ConfigError``."""
    columns = {name: [getattr(member, ours) for member in value.members] for name, ours in _MEMBER_FIELDS.items()}
    record = {
        "version": value.version,
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "members": columns,
        "current_state_timestamp": value.current_state_timestamp_ms,
        TAGGED: value.tagged_fields,
    }
    return layout("GroupMetadataValue", value.version).write(record)


_MEMBER_FIELDS = {part.name.removesuffix("_ms"): part.name for part in fields(StoredMember)}
"""A member's field names in the schema and here, where names end in their unit."""


def _members(columns: Columns) -> tuple[StoredMember, ...]:
    names = [_MEMBER_FIELDS[name] for name in columns]
    return tuple(StoredMember(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _read(data: bytes, message: str) -> Record:
    source = Source(data, message)
    version = source.number(INT16, "version")
    if not holds(valid_versions(message), version):
        raise source.malformed("version", f"{version} is not one of {valid_versions(message)}")
    record, _ = layout(message, version).read(data)
    return record
