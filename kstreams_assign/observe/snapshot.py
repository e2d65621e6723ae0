"""What can be fetched of a group at one moment, as a value that can be kept in a file.

What lives here: the raw bytes of every member, the numbers around them, and their form as JSON. What must not: the
meaning of the bytes (``decoded``), and how they are fetched.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopicPartition

FORMAT = "kstreams-assign group snapshot"
FORMAT_VERSION = 1

Kind = TypeVar("Kind")


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
    another generation. ``partition_counts`` holds the subscribed topics and those named after the group;
    ``end_offsets`` and ``begin_offsets`` are those of the changelogs, and empty if they were not requested or could
    not be read. ``assigned_ms`` is when the generation was completed, by the broker's clock. ``committed_metadata``:
    the text beside the committed offset of each input partition that has one. ``gaps``: what could not be read, and
    why.
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
        "end_offsets": _by_topic(snapshot.end_offsets),
        "begin_offsets": _by_topic(snapshot.begin_offsets),
        "committed_metadata": _by_topic(snapshot.committed_metadata),
        "gaps": dict(snapshot.gaps),
    }
    return json.dumps(content, indent=1) + "\n"


def read_snapshot(text: str, name: str = "the snapshot") -> GroupSnapshot:
    """Read a snapshot from its JSON. Raises ``ConfigError`` naming the file (``name``), the field and the problem."""
    try:
        content = json.loads(text)
    except ValueError as wrong:
        raise ConfigError(f"{name} is not a group snapshot: {wrong}") from None
    fields = _Fields(name, "", content)
    form, version = fields.get("format", str), fields.get("version", int)
    if (form, version) != (FORMAT, FORMAT_VERSION):
        raise ConfigError(f"{name} is {form!r}, version {version}; this release reads {FORMAT!r}, {FORMAT_VERSION}")
    return GroupSnapshot(
        group=fields.get("group", str),
        state=fields.get("state", str),
        protocol_type=fields.get("protocol_type", str),
        protocol=fields.get("protocol", str),
        members=tuple(_member(_Fields(name, "members.", member)) for member in fields.get("members", list)),
        taken_ms=fields.get("taken_ms", int),
        generation=fields.or_none("generation", int),
        leader=fields.or_none("leader", str),
        assigned_ms=fields.or_none("assigned_ms", int),
        partition_counts=fields.table("partition_counts", int),
        end_offsets=_partitions(fields, "end_offsets", int),
        begin_offsets=_partitions(fields, "begin_offsets", int),
        committed_metadata=_partitions(fields, "committed_metadata", str) if "committed_metadata" in content else {},
        gaps=fields.table("gaps", str),
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


def _member(fields: _Fields) -> DescribedMember:
    return DescribedMember(
        member_id=fields.get("member_id", str),
        client_id=fields.get("client_id", str),
        client_host=fields.get("client_host", str),
        instance_id=fields.or_none("instance_id", str),
        subscription=fields.read("subscription", _base64),
        assignment=fields.read("assignment", _base64),
    )


def _base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _by_topic(values: Mapping[TopicPartition, Kind]) -> dict[str, dict[str, Kind]]:
    topics: dict[str, dict[str, Kind]] = {}
    for partition in sorted(values):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = values[partition]
    return topics


def _partitions(fields: _Fields, key: str, kind: type[Kind]) -> dict[TopicPartition, Kind]:
    topics = fields.table(key, dict)
    inner = {topic: _Fields(fields.name, f"{key}.", topics) for topic in topics}
    return {
        TopicPartition(topic, fields.number(f"{key}.{topic}", partition)): value
        for topic, of_topic in inner.items()
        for partition, value in of_topic.table(topic, kind).items()
    }


@dataclass(frozen=True, slots=True)
class _Fields:
    """One JSON object, read strictly: an error names a field that is missing or of another kind."""

    name: str
    within: str
    content: Any

    def get(self, key: str, kind: type[Kind]) -> Kind:
        value = self.content.get(key) if isinstance(self.content, dict) else None
        if type(value) is not kind:
            raise self._wrong(key, f"must be {_KINDS[kind]}")
        return value

    def or_none(self, key: str, kind: type[Kind]) -> Kind | None:
        return None if isinstance(self.content, dict) and self.content.get(key) is None else self.get(key, kind)

    def table(self, key: str, kind: type[Kind]) -> dict[str, Kind]:
        inner = _Fields(self.name, f"{self.within}{key}.", self.get(key, dict))
        return {name: inner.get(name, kind) for name in inner.content}

    def read(self, key: str, how: Callable[[str], Kind]) -> Kind:
        try:
            return how(self.get(key, str))
        except ValueError as wrong:
            raise self._wrong(key, str(wrong)) from None

    def number(self, key: str, text: str) -> int:
        if not text.isdecimal():
            raise self._wrong(key, f"{text!r} is not a partition number")
        return int(text)

    def _wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{self.name} is a damaged group snapshot: {self.within}{key}: {why}")


_KINDS: Mapping[type, str] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}
