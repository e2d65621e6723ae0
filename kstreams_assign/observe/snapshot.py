"""What can be fetched of a group at one moment, as a value that can be kept in a file.

What lives here: the raw bytes of every member, the numbers around them, and their form as JSON. What must not: the
meaning of the bytes (``decoded``), and how they are fetched.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.saved import Fields, by_topic, partitions, read_base64

FORMAT = "kstreams-assign group snapshot"
FORMAT_VERSION = 1
STABLE = "Stable"
"""The state of a group whose members have their assignments."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """One member as the broker describes it; ``subscription`` and ``assignment`` are ConsumerProtocol bytes."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group, its members' bytes, and the topics and offsets around it, all of about the time ``taken_ms``.

    ``generation`` and ``leader`` (a member id) are None if the group's metadata record could not be read, or is of
    another generation. ``partition_counts`` holds the subscribed topics, those named after the group, and those that a
    topology given by the caller reads; ``end_offsets`` and ``begin_offsets`` are those of the changelogs, and empty if
    they were not requested or could not be read. ``end_offsets`` also has the committed offsets of topics that are not
    internal, 0 without one: a table of such a topic ends there. ``assigned_ms`` is when the generation was completed,
    by the broker's clock. ``committed_metadata``: the text beside the committed offset of each input partition that has
    one. ``gaps``: what could not be read, and why.

    In a rebalance, ``members`` are those of the last completed generation. ``joining``: the members that are in the
    group now and were not in that generation; ``left``: the ids of those that were, and are not in the group any more.
    ``rebalance_timeout_ms`` is the longest of that generation's members, 0 if it is not known.
    """

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
    taken_ms: int
    generation: int | None = None
    leader: str | None = None
    assigned_ms: int | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    begin_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed_metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)
    joining: tuple[DescribedMember, ...] = ()
    left: tuple[str, ...] = ()
    rebalance_timeout_ms: int = 0


def snapshot_text(snapshot: GroupSnapshot) -> str:
    """Return the snapshot as JSON; ``read_snapshot`` reads it back as an equal value."""
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "group": snapshot.group,
        "state": snapshot.state,
        "protocol_type": snapshot.protocol_type,
        "protocol": snapshot.protocol,
        "taken_ms": snapshot.taken_ms,
        "generation": snapshot.generation,
        "leader": snapshot.leader,
        "assigned_ms": snapshot.assigned_ms,
        "members": [_member_map(member) for member in snapshot.members],
        "partition_counts": dict(snapshot.partition_counts),
        "end_offsets": by_topic(snapshot.end_offsets),
        "begin_offsets": by_topic(snapshot.begin_offsets),
        "committed_metadata": by_topic(snapshot.committed_metadata),
        "gaps": dict(snapshot.gaps),
        "joining": [_member_map(member) for member in snapshot.joining],
        "left": list(snapshot.left),
        "rebalance_timeout_ms": snapshot.rebalance_timeout_ms,
    }
    return json.dumps(content, indent=1) + "\n"


def read_snapshot(text: str, name: str = "the snapshot") -> GroupSnapshot:
    """Read a snapshot from its JSON. Raises ``ConfigError`` naming the file (``name``), the field and the problem."""
    fields = Fields.of(text, name, FORMAT, FORMAT_VERSION)
    return GroupSnapshot(
        group=fields.get("group", str),
        state=fields.get("state", str),
        protocol_type=fields.get("protocol_type", str),
        protocol=fields.get("protocol", str),
        members=_members(fields, "members"),
        taken_ms=fields.get("taken_ms", int),
        generation=fields.or_none("generation", int),
        leader=fields.or_none("leader", str),
        assigned_ms=fields.or_none("assigned_ms", int),
        partition_counts=fields.table("partition_counts", int),
        end_offsets=partitions(fields, "end_offsets", int),
        begin_offsets=partitions(fields, "begin_offsets", int),
        committed_metadata=partitions(fields, "committed_metadata", str) if fields.has("committed_metadata") else {},
        gaps=fields.table("gaps", str),
        joining=_members(fields, "joining") if fields.has("joining") else (),
        left=tuple(map(str, fields.get("left", list))) if fields.has("left") else (),
        rebalance_timeout_ms=fields.or_none("rebalance_timeout_ms", int) or 0,
    )


def _member_map(member: DescribedMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
        "subscription": b64encode(member.subscription).decode(),
        "assignment": b64encode(member.assignment).decode(),
    }


def _members(fields: Fields, key: str) -> tuple[DescribedMember, ...]:
    return tuple(_member(Fields(fields.name, f"{key}.", member)) for member in fields.get(key, list))


def _member(fields: Fields) -> DescribedMember:
    return DescribedMember(
        member_id=fields.get("member_id", str),
        client_id=fields.get("client_id", str),
        client_host=fields.get("client_host", str),
        instance_id=fields.or_none("instance_id", str),
        subscription=fields.read("subscription", read_base64),
        assignment=fields.read("assignment", read_base64),
    )
