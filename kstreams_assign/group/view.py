"""All subscriptions of one rebalance, decoded: what a leader looks at before it decides.

Whoever cannot be read is set apart with the reason; nothing here raises because of what a member sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.values import ErrorCode, JoinedMember
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import FutureSubscription


@dataclass(frozen=True, slots=True)
class Consumer:
    """A member whose user-data could be read."""

    member: JoinedMember
    info: MemberReport


@dataclass(frozen=True)
class GroupView:
    """All subscriptions of one rebalance, decoded. A process may run several consumers (threads)."""

    processes: Mapping[UUID, tuple[Consumer, ...]]
    unreadable: Mapping[str, str]
    version: int
    supported: int
    dialect: Dialect = APACHE

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """Input partition -> the member that owns it as it joins."""
        return {
            partition: consumer.member.member_id
            for consumers in self.processes.values()
            for consumer in consumers
            for partition in consumer.member.owned
        }

    @property
    def shutdown_requested(self) -> bool:
        return any(
            consumer.info.error_code == ErrorCode.SHUTDOWN_REQUESTED
            for consumers in self.processes.values()
            for consumer in consumers
        )

    @property
    def foreign(self) -> list[str]:
        """Members that are not ours: they carry no trailer."""
        return [
            c.member.member_id for consumers in self.processes.values() for c in consumers if c.info.trailer is None
        ]

    @property
    def member_ids(self) -> list[str]:
        return [c.member.member_id for consumers in self.processes.values() for c in consumers]


def read_group(members: Sequence[JoinedMember], dialect: Dialect = APACHE) -> GroupView:
    """Decode every member's user-data; the unreadable are set apart with the reason."""
    processes: dict[UUID, list[Consumer]] = {}
    unreadable: dict[str, str] = {}
    version = supported = dialect.latest_version
    for member in sorted(members, key=lambda m: m.member_id):
        try:
            info = dialect.read_report(member.user_data)
        except MalformedUserData as cause:
            unreadable[member.member_id] = str(cause)
            continue
        supported = min(supported, info.latest_supported_version)
        if isinstance(info, FutureSubscription):
            unreadable[member.member_id] = f"speaks version {info.used_version}, newer than {dialect.latest_version}"
            continue
        version = min(version, info.version)
        processes.setdefault(info.process_id, []).append(Consumer(member, info))
    return GroupView({p: tuple(c) for p, c in processes.items()}, unreadable, version, supported, dialect)
