"""The messages and records of streams groups (KIP-1071) as JSON.

A message does not contain its version: the first version that reads the bytes to their end counts, the newest is tried
first. A record begins with its version. What must not live here: the layouts (``wire``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.observe.forms import Json
from kstreams_assign.wire import (
    StreamsDescribeRequest,
    StreamsDescribeResponse,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResponse,
    decode_streams_key,
    decode_streams_value,
)
from kstreams_assign.wire.compile import Record, layout
from kstreams_assign.wire.streams_records import (
    CURRENT_MEMBER,
    GROUP,
    MEMBER,
    MEMBER_STATES,
    TARGET,
    TARGET_MEMBER,
    TOPOLOGY,
    StreamsCurrentTasks,
)
from kstreams_assign.wire.structs import value_of

_VERSIONS = (1, 0)
_KEYS: Mapping[int, str] = {
    GROUP: "StreamsGroupMetadataKey",
    MEMBER: "StreamsGroupMemberMetadataKey",
    TARGET: "StreamsGroupTargetAssignmentMetadataKey",
    TARGET_MEMBER: "StreamsGroupTargetAssignmentMemberKey",
    CURRENT_MEMBER: "StreamsGroupCurrentMemberAssignmentKey",
    TOPOLOGY: "StreamsGroupTopologyKey",
}


def streams_key_form(data: bytes) -> Json | None:
    """Return the key of a record as JSON, ``None`` if it is not about a streams group. Raises ``MalformedUserData``."""
    key = decode_streams_key(data)
    return None if key is None else {"message": _KEYS[key.type], **asdict(key)}


def _record(kind: int, data: bytes, _dialect: str | None) -> Json:
    value = decode_streams_value(kind, data)
    form: Json = {"message": _KEYS[kind].removesuffix("Key") + "Value", **_plain(asdict(value))}
    if isinstance(value, StreamsCurrentTasks):
        form["state_name"] = MEMBER_STATES.get(value.state)
    return form


def _message(name: str, kind: type[Any], data: bytes, _dialect: str | None) -> Json:
    """Return the first version that reads all bytes, else the newest that reads some."""
    read: dict[int, tuple[Record, int]] = {}
    refused: list[MalformedUserData] = []
    for version in _VERSIONS:
        try:
            read[version] = layout(name, version).read(data)
        except MalformedUserData as why:
            refused.append(why)
    if not read:
        raise refused[0]
    first, *others = [version for version, (_, end) in read.items() if end == len(data)] or list(read)[:1]
    value = value_of(kind, read[first][0])
    return {"message": name, "version": first, "also_reads_as": others, **_plain(asdict(value))}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: bytes as hex, keys as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.hex() if isinstance(value, bytes) else value


STREAMS_KINDS: Mapping[str, Callable[[bytes, str | None], Json]] = {
    "streams-group-metadata": partial(_record, GROUP),
    "streams-member-metadata": partial(_record, MEMBER),
    "streams-target-metadata": partial(_record, TARGET),
    "streams-target-assignment": partial(_record, TARGET_MEMBER),
    "streams-current-assignment": partial(_record, CURRENT_MEMBER),
    "streams-topology": partial(_record, TOPOLOGY),
    "streams-heartbeat-request": partial(_message, "StreamsGroupHeartbeatRequest", StreamsHeartbeatRequest),
    "streams-heartbeat-response": partial(_message, "StreamsGroupHeartbeatResponse", StreamsHeartbeatResponse),
    "streams-describe-request": partial(_message, "StreamsGroupDescribeRequest", StreamsDescribeRequest),
    "streams-describe-response": partial(_message, "StreamsGroupDescribeResponse", StreamsDescribeResponse),
}
"""The decoders of streams groups by the word of the command."""
