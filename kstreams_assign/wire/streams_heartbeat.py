"""StreamsGroupHeartbeat (RPC 88, KIP-1071): what a member reports, and what the coordinator answers.

Values and bytes of versions 0 and 1, without the request's and the response's headers. Layouts are in ``protocol/``.
When to send which field is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kstreams_assign.wire.compile import layout
from kstreams_assign.wire.streams_structs import Endpoint, StreamsSubtopology, TaskIds, TaskOffset
from kstreams_assign.wire.structs import record_of, value_of

HEARTBEAT_API_KEY = 88

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""The epoch of a static member that leaves and will come back."""

UNCHANGED = -1
"""The rebalance timeout of a heartbeat that does not change it."""

STALE_TOPOLOGY, MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS = range(4)
SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED, MISSING_CLIENT_TAGS = range(4, 7)
"""The codes of ``GroupStatus`` (Kafka: ``StreamsGroupHeartbeatResponse.Status``)."""

_REQUEST, _RESPONSE = "StreamsGroupHeartbeatRequest", "StreamsGroupHeartbeatResponse"


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The topology of a member that joins."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatRequest:
    """A member's heartbeat; ``None`` means unchanged. The three lists of tasks are all ``None`` or all given."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topology: StreamsTopology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = False

    def as_taken_in(self, version: int) -> StreamsHeartbeatRequest:
        """Return what brokers take in this version: in version 0 neither positions nor warm-ups."""
        if version > 0:
            return self
        warmups = None if self.warmup_tasks is None else ()
        return replace(self, warmup_tasks=warmups, task_offsets=None, task_end_offsets=None)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Something that keeps the group from working, or concerns all its members."""

    status_code: int
    status_detail: str


@dataclass(frozen=True, slots=True)
class EndpointTopic:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """The input partitions of the tasks of one process."""

    user_endpoint: Endpoint
    active_partitions: tuple[EndpointTopic, ...]
    standby_partitions: tuple[EndpointTopic, ...]


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatResponse:
    """The coordinator's answer; ``None`` means unchanged. ``acceptable_recovery_lag`` -1: no warm-ups (version 1)."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    status: tuple[GroupStatus, ...] | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    topology_description_required: bool = False
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: tuple[EndpointPartitions, ...] | None = None


def encode_streams_heartbeat_request(value: StreamsHeartbeatRequest, version: int) -> bytes:
    """Encode the body of a request, version 0 or 1. Raises ``ConfigError``."""
    return layout(_REQUEST, version).write(record_of(value))


def decode_streams_heartbeat_request(data: bytes, version: int) -> StreamsHeartbeatRequest:
    """Decode the body of a request. Raises ``MalformedUserData``, and ``ConfigError`` for another version."""
    return value_of(StreamsHeartbeatRequest, layout(_REQUEST, version).read(data)[0])


def encode_streams_heartbeat_response(value: StreamsHeartbeatResponse, version: int) -> bytes:
    """Encode the body of a response, version 0 or 1. Raises ``ConfigError``."""
    return layout(_RESPONSE, version).write(record_of(value))


def decode_streams_heartbeat_response(data: bytes, version: int) -> StreamsHeartbeatResponse:
    """Decode the body of a response. Raises ``MalformedUserData``, and ``ConfigError`` for another version."""
    return value_of(StreamsHeartbeatResponse, layout(_RESPONSE, version).read(data)[0])
