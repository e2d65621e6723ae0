"""A snapshot of a streams group in a file: the broker's description as its bytes, and the numbers around it as JSON."""

from __future__ import annotations

import json
from base64 import b64encode

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.observe.saved import Fields, by_topic, partitions, read_base64
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.wire import (
    DescribedStreamsGroup,
    StreamsDescribeResponse,
    decode_streams_describe_response,
    encode_streams_describe_response,
)

FORMAT = "kstreams-assign streams group snapshot"
FORMAT_VERSION = 1
MESSAGE_VERSION = 1
"""Of the description: the newest version of StreamsGroupDescribe's answer has all fields of the older one."""


def streams_snapshot_text(snapshot: StreamsSnapshot) -> str:
    """Return the snapshot as JSON; ``read_streams_snapshot`` reads it back as an equal value."""
    described = encode_streams_describe_response(StreamsDescribeResponse(0, (snapshot.group,)), MESSAGE_VERSION)
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "group": snapshot.group.group_id,
        "taken_ms": snapshot.taken_ms,
        "described": b64encode(described).decode(),
        "partition_counts": dict(snapshot.partition_counts),
        "end_offsets": by_topic(snapshot.end_offsets),
        "begin_offsets": by_topic(snapshot.begin_offsets),
        "settings": dict(snapshot.settings),
        "gaps": dict(snapshot.gaps),
    }
    return json.dumps(content, indent=1) + "\n"


def read_streams_snapshot(text: str, name: str = "the snapshot") -> StreamsSnapshot:
    """Read a snapshot from its JSON. Raises ``ConfigError`` naming the file (``name``), the field and the problem."""
    fields = Fields.of(text, name, FORMAT, FORMAT_VERSION)
    return StreamsSnapshot(
        group=fields.read("described", _described),
        taken_ms=fields.get("taken_ms", int),
        partition_counts=fields.table("partition_counts", int),
        end_offsets=partitions(fields, "end_offsets", int),
        begin_offsets=partitions(fields, "begin_offsets", int),
        settings=fields.table("settings", str),
        gaps=fields.table("gaps", str),
    )


def is_streams_snapshot(text: str) -> bool:
    """Return whether a file says that it is a snapshot of a streams group."""
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _described(text: str) -> DescribedStreamsGroup:
    """Raises ``ValueError`` for bytes that are no description of one group."""
    try:
        (group,) = decode_streams_describe_response(read_base64(text), MESSAGE_VERSION).groups
    except MalformedUserData as wrong:
        raise ValueError(str(wrong)) from None
    return group
