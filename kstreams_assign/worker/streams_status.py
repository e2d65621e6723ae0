"""What the coordinator of a streams group (KIP-1071) says of the group: its status as warnings, its endpoints as hosts.

What must not live here: what follows for the member (``engine.streams_membership``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kstreams_assign.group.values import Hosts
from kstreams_assign.model import HostInfo, TopicPartition
from kstreams_assign.wire.streams_heartbeat import (
    ASSIGNMENT_DELAYED,
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_CLIENT_TAGS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    EndpointPartitions,
    EndpointTopic,
    GroupStatus,
)

_MEANINGS: Mapping[int, str] = {
    STALE_TOPOLOGY: "the group runs a newer topology than this member; run the same version in all members",
    MISSING_SOURCE_TOPICS: "source topics are missing; create them",
    INCORRECTLY_PARTITIONED_TOPICS: "topics are partitioned wrongly; this member ends",
    MISSING_INTERNAL_TOPICS: "internal topics are missing, and the brokers do not create them; allow this member to "
    "create topics",
    MISSING_CLIENT_TAGS: "members lack client tags that the group asks for",
}
_PASSING = frozenset({ASSIGNMENT_DELAYED, SHUTDOWN_APPLICATION})
"""A new group waits for more members; the end of the application has an event of its own."""
_PATIENCE_MS: Mapping[int, int] = {MISSING_INTERNAL_TOPICS: 20_000}
"""How long a status may last before it is a warning: a new application has no internal topics yet.

That the brokers have created them is in the answer to the next heartbeat, which comes after 15 s at most."""


class StatusWarnings:
    """The warnings of the newest status, for one thread. Times are milliseconds of one clock, from the caller."""

    def __init__(self) -> None:
        self._since_ms: dict[GroupStatus, int] = {}
        self._warned: tuple[str, ...] = ()

    def hear(self, status: Iterable[GroupStatus], now_ms: int) -> None:
        """Take note of a status."""
        self._since_ms = {each: self._since_ms.get(each, now_ms) for each in status}

    def news(self, now_ms: int) -> tuple[str, ...] | None:
        """Return the warnings of now, which may be none; None if they are those of the last call."""
        warnings = tuple(_text(each) for each, since_ms in self._since_ms.items() if _is_due(each, now_ms - since_ms))
        before, self._warned = self._warned, warnings
        return None if warnings == before else warnings


def _is_due(status: GroupStatus, age_ms: int) -> bool:
    return status.status_code not in _PASSING and age_ms >= _PATIENCE_MS.get(status.status_code, 0)


def _text(status: GroupStatus) -> str:
    meaning = _MEANINGS.get(status.status_code, f"status code {status.status_code} of the group")
    return f"{meaning} ({status.status_detail})" if status.status_detail else meaning


def hosts_of(rows: Iterable[EndpointPartitions]) -> tuple[Hosts, Hosts]:
    """Return endpoint -> input partitions, of active tasks and of standbys.

    Each member has a row; the threads of a Java process are members that share an endpoint.
    """
    active: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    standby: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    for each in rows:
        host = HostInfo(each.user_endpoint.host, each.user_endpoint.port)
        active[host] = active.get(host, ()) + _partitions(each.active_partitions)
        standby[host] = standby.get(host, ()) + _partitions(each.standby_partitions)
    return active, standby


def _partitions(topics: Collection[EndpointTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
