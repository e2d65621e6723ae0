"""The records of ``__consumer_offsets`` about streams groups (KIP-1071): types 17 and 19 to 23.

Their keys and values, and the translation. Layouts are in ``protocol/``; the topic is read elsewhere. The keys of all
other records are in ``offsets_topic``. A record without a value deletes its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kstreams_assign.wire.compile import holds, layout, valid_versions
from kstreams_assign.wire.primitives import INT16, Source
from kstreams_assign.wire.streams_structs import Endpoint, StreamsSubtopology, TaskIds
from kstreams_assign.wire.structs import record_of, tagged_field, unknown_tags, value_of

GROUP, MEMBER, TARGET, TARGET_MEMBER, CURRENT_MEMBER, TOPOLOGY = 17, 19, 20, 21, 22, 23
"""The types of the records, first in each key."""

MEMBER_STATES = {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks", 127: "Unknown"}
"""Kafka's ``MemberState``: to give tasks up comes before waiting for tasks of others."""

_NAMES = {
    GROUP: "StreamsGroupMetadata",
    MEMBER: "StreamsGroupMemberMetadata",
    TARGET: "StreamsGroupTargetAssignmentMetadata",
    TARGET_MEMBER: "StreamsGroupTargetAssignmentMember",
    CURRENT_MEMBER: "StreamsGroupCurrentMemberAssignment",
    TOPOLOGY: "StreamsGroupTopology",
}


def _no_epoch() -> int:
    return -1


@dataclass(frozen=True, slots=True)
class StreamsKey:
    """The key of a record about a streams group. ``member_id`` is ``None`` where the record is about the group."""

    type: int
    group_id: str
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadata:
    """The epoch of a group, under a key of type 17. ``metadata_hash`` is that of the topics it uses."""

    epoch: int
    metadata_hash: int
    version: int = 0
    validated_topology_epoch: int = tagged_field(_no_epoch)
    last_assignment_configs: Mapping[str, str] | None = tagged_field(dict)
    stored_description_topology_epoch: int = tagged_field(_no_epoch)
    failed_description_topology_epoch: int = tagged_field(_no_epoch)
    tagged_fields: Mapping[int, bytes] = unknown_tags()


@dataclass(frozen=True, slots=True)
class StreamsMemberMetadata:
    """What a member said of itself, under a key of type 19."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: Mapping[str, str]
    version: int = 0
    tagged_fields: Mapping[int, bytes] = unknown_tags()


@dataclass(frozen=True, slots=True)
class StreamsTargetMetadata:
    """The group epoch that the target assignment was computed for, under a key of type 20. Times are wall-clock."""

    assignment_epoch: int
    version: int = 0
    assignment_timestamp: int = tagged_field(int)
    tagged_fields: Mapping[int, bytes] = unknown_tags()


@dataclass(frozen=True, slots=True)
class StreamsTargetTasks:
    """The tasks that a member is to own, under a key of type 21."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]
    version: int = 0
    tagged_fields: Mapping[int, bytes] = unknown_tags()


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """The tasks of one subtopology, and the epoch in which each of them was assigned."""

    subtopology_id: str
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = tagged_field(tuple)


@dataclass(frozen=True, slots=True)
class StreamsCurrentTasks:
    """The tasks that a member owns, and those that it still has to give up, under a key of type 22."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    active_tasks: tuple[OwnedTasks, ...]
    standby_tasks: tuple[OwnedTasks, ...]
    warmup_tasks: tuple[OwnedTasks, ...]
    active_tasks_pending_revocation: tuple[OwnedTasks, ...]
    standby_tasks_pending_revocation: tuple[OwnedTasks, ...]
    warmup_tasks_pending_revocation: tuple[OwnedTasks, ...]
    version: int = 0
    tagged_fields: Mapping[int, bytes] = unknown_tags()


@dataclass(frozen=True, slots=True)
class StreamsGroupTopology:
    """The topology of a group, under a key of type 23."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    version: int = 0
    tagged_fields: Mapping[int, bytes] = unknown_tags()


StreamsValue = (
    StreamsGroupMetadata
    | StreamsMemberMetadata
    | StreamsTargetMetadata
    | StreamsTargetTasks
    | StreamsCurrentTasks
    | StreamsGroupTopology
)

_VALUES: Mapping[int, type[StreamsValue]] = {
    GROUP: StreamsGroupMetadata,
    MEMBER: StreamsMemberMetadata,
    TARGET: StreamsTargetMetadata,
    TARGET_MEMBER: StreamsTargetTasks,
    CURRENT_MEMBER: StreamsCurrentTasks,
    TOPOLOGY: StreamsGroupTopology,
}
_TYPES = {kind: number for number, kind in _VALUES.items()}


def decode_streams_key(data: bytes) -> StreamsKey | None:
    """Decode a record's key; ``None`` if the record is not about a streams group. Raises ``MalformedUserData``."""
    kind = Source(data, "__consumer_offsets key").number(INT16, "type")
    if kind not in _NAMES:
        return None
    return StreamsKey(**layout(f"{_NAMES[kind]}Key", kind).read(data)[0])


def encode_streams_key(key: StreamsKey) -> bytes:
    """Encode a key. Raises ``ConfigError``."""
    record = {"type": key.type, "group_id": key.group_id, "member_id": key.member_id or ""}
    return layout(f"{_NAMES[key.type]}Key", key.type).write(record)


def decode_streams_value(kind: int, data: bytes) -> StreamsValue:
    """Decode the value under a key of this type. Raises ``MalformedUserData``."""
    message = f"{_NAMES[kind]}Value"
    source = Source(data, message)
    version = source.number(INT16, "version")
    if not holds(valid_versions(message), version):
        raise source.malformed("version", f"{version} is not one of {valid_versions(message)}")
    value: StreamsValue = value_of(_VALUES[kind], layout(message, version).read(data)[0])
    return value


def encode_streams_value(value: StreamsValue) -> bytes:
    """Encode a value in its version. Raises ``ConfigError``."""
    return layout(f"{_NAMES[_TYPES[type(value)]]}Value", value.version).write(record_of(value))
