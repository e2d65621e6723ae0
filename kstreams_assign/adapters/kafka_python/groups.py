"""Any group as its coordinator describes it, with the raw bytes of its members.

kafka-python is the one client here that gets those bytes from the wire; its public ``describe_groups`` decodes them in
a way of its own, so one method that is not public is replaced (``_describe_groups_process_response``, 3.0.12): it hands
the answer on. What must not live here: what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import errors as kafka_errors

from kstreams_assign.adapters.kafka_python.admin import connected, group_settings
from kstreams_assign.adapters.kafka_python.committed_metadata import committed_metadata
from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.adapters.kafka_python.streams_groups import (
    ABSENT,
    StreamsAdmin,
    ask_while_moving,
    describe_streams_group,
)
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import DescribedStreamsGroup
from kstreams_assign.wire.streams_heartbeat import HEARTBEAT_API_KEY

T = TypeVar("T")

EMPTY, GONE = "Empty", "Dead"


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member's line in DescribeGroups; the bytes are empty while the group rebalances."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A classic group. ``protocol`` is what its members assign by, empty while there is none."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class GroupDescriber:
    """Asks about groups. For one thread."""

    def __init__(self, admin: _RawAdmin, timeout_s: float) -> None:
        self._admin = admin
        self._timeout_s = timeout_s

    def heartbeat_version(self) -> int:
        """Return the newest version of streams groups' heartbeats that the brokers know; -1 for none."""
        return self._admin.version_max(HEARTBEAT_API_KEY)

    def describe(self, group: str) -> DescribedGroup | None:
        """The group, or None where the brokers know no classic group of that name. Raises ``BrokerUnavailable``."""
        answer = self._ask(group, f"describe group {group}", lambda: self._described(group))
        if answer.error_code in ABSENT or answer.group_state == GONE:
            return None
        members = tuple(_member(member) for member in answer.members)
        return DescribedGroup(group, answer.group_state, answer.protocol_type, answer.protocol_data, members)

    def _described(self, group: str) -> Any:
        """Ask once. Raises kafka-python's errors."""
        answer = self._admin.describe_groups([group])[group]
        if answer.error_code and answer.error_code not in ABSENT:
            raise kafka_errors.for_code(answer.error_code)
        return answer

    def _ask(self, group: str, doing: str, ask: Callable[[], T]) -> T:
        return ask_while_moving(self._admin, group, self._timeout_s, doing, ask)

    def describe_streams(self, group: str) -> DescribedStreamsGroup | None:
        """The streams group (KIP-1071), or None where there is none of that name. Raises ``BrokerUnavailable``."""
        return describe_streams_group(self._admin, group, self._timeout_s)

    def group_settings(self, group: str) -> dict[str, str]:
        """Return the settings that the brokers have for a group, by Kafka's names (``streams.num.standby.replicas``).

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        return group_settings(self._admin, group)

    def committed_metadata(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the metadata beside the committed offsets; empty where there is none.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        wanted = list(partitions)
        return self._ask(
            group, f"committed metadata of {group}", lambda: committed_metadata(self._admin, group, wanted)
        )

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return all offsets that the group has committed. Raises ``BrokerUnavailable``, ``BrokerError``."""
        answers = self._ask(
            group, f"committed offsets of {group}", lambda: self._admin.list_group_offsets(group)[group]
        )
        return {TopicPartition(*at): answer.offset for at, answer in answers.items() if answer.offset >= 0}

    def types(self) -> dict[str, str]:
        """Return the type of every group that the brokers list: ``classic``, ``consumer``, ``share``, ``streams``."""
        return {group["group_id"]: str(group.get("group_type") or "classic").lower() for group in self._listed()}

    def has_members(self, group: str) -> bool:
        """Return whether the group has members, by the state that the brokers list; it may be of any type."""
        return any(each["group_id"] == group and each.get("group_state") != EMPTY for each in self._listed())

    def _listed(self) -> list[Mapping[str, Any]]:
        with translated("list groups"):
            listed: list[Mapping[str, Any]] = self._admin.list_groups()
        return listed


@contextmanager
def describes_groups(
    bootstrap_servers: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> Iterator[GroupDescriber]:
    """Yield a describer for the block. Raises ``BrokerUnavailable`` if no broker answers in time."""
    with connected(_RawAdmin, bootstrap_servers, client or {}, timeout_s) as admin:
        yield GroupDescriber(admin, timeout_s)


class _RawAdmin(StreamsAdmin):
    def _describe_groups_process_response(self, response: Any) -> dict[str, Any]:
        """Each group's answer as it came."""
        return {group.group_id: group for group in response.groups}


def _member(member: Any) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.group_instance_id,
        metadata=bytes(member.member_metadata or b""),
        assignment=bytes(member.member_assignment or b""),
    )
