"""StreamsGroupDescribe (RPC 89, KIP-1071): streams groups as their coordinator knows them.

Values and bytes of versions 0 and 1, without the request's and the response's headers. Layouts are in ``protocol/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kstreams_assign.wire.compile import layout
from kstreams_assign.wire.streams_structs import Endpoint, StreamsSubtopology, TaskIds, TaskOffset
from kstreams_assign.wire.structs import record_of, value_of

DESCRIBE_API_KEY = 89
NO_OPERATIONS = -(2**31)
"""The authorized operations of a group for which nobody asked for them."""

_REQUEST, _RESPONSE = "StreamsGroupDescribeRequest", "StreamsGroupDescribeResponse"


@dataclass(frozen=True, slots=True)
class StreamsDescribeRequest:
    """Groups to describe; ``include_topology_description`` from version 1."""

    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False
    include_topology_description: bool = False


@dataclass(frozen=True, slots=True)
class DescribedTopology:
    """The group's topology; its subtopologies are ``None`` until the broker resolved them."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...] | None


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """Tasks of one member, by role."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedStreamsMember:
    """A member: who it is, what it owns, and what it is to own."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: Mapping[str, str]
    task_offsets: tuple[TaskOffset, ...]
    task_end_offsets: tuple[TaskOffset, ...]
    assignment: MemberTasks
    target_assignment: MemberTasks
    is_classic: bool


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A node of the topology as a member described it (KIP-1331)."""

    name: str
    node_type: int
    source_topics: tuple[str, ...]
    sink_topic: str | None
    stores: tuple[str, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubtopologyNodes:
    """The nodes of one subtopology."""

    subtopology_id: str
    nodes: tuple[TopologyNode, ...]


@dataclass(frozen=True, slots=True)
class GlobalStoreNodes:
    """What fills one global store."""

    source: TopologyNode
    processor: TopologyNode


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """What ``Topology.describe()`` returns in a member, as the broker keeps it."""

    subtopologies: tuple[SubtopologyNodes, ...]
    global_stores: tuple[GlobalStoreNodes, ...]


@dataclass(frozen=True, slots=True)
class DescribedStreamsGroup:
    """A group. The last three fields are of version 1."""

    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: DescribedTopology | None
    members: tuple[DescribedStreamsMember, ...]
    authorized_operations: int = NO_OPERATIONS
    topology_description: TopologyDescription | None = None
    topology_description_status: int = 0
    assignor_name: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsDescribeResponse:
    """The coordinator's answer, a group for each that was asked for."""

    throttle_time_ms: int
    groups: tuple[DescribedStreamsGroup, ...]


def encode_streams_describe_request(value: StreamsDescribeRequest, version: int) -> bytes:
    """Encode the body of a request, version 0 or 1. Raises ``ConfigError``."""
    return layout(_REQUEST, version).write(record_of(value))


def decode_streams_describe_request(data: bytes, version: int) -> StreamsDescribeRequest:
    """Decode the body of a request. Raises ``MalformedUserData``, and ``ConfigError`` for another version."""
    return value_of(StreamsDescribeRequest, layout(_REQUEST, version).read(data)[0])


def encode_streams_describe_response(value: StreamsDescribeResponse, version: int) -> bytes:
    """Encode the body of a response, version 0 or 1. Raises ``ConfigError``."""
    return layout(_RESPONSE, version).write(record_of(value))


def decode_streams_describe_response(data: bytes, version: int) -> StreamsDescribeResponse:
    """Decode the body of a response. Raises ``MalformedUserData``, and ``ConfigError`` for another version."""
    return value_of(StreamsDescribeResponse, layout(_RESPONSE, version).read(data)[0])
