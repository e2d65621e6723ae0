"""All subscriptions of one rebalance, decoded: the leader's input.

Unreadable members are listed with the reason; nothing here raises because of what a member sent. Members of a newer
release, whose bytes reveal only their version, count as one unknown process, as in Java: they get tasks like a new
process, in a version that all can read, and join again with it at once (version probing, KIP-268).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain
from uuid import UUID

from kstreams_assign.config import read_endpoint
from kstreams_assign.errors import MalformedUserData
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.size import joined_bytes
from kstreams_assign.group.values import ErrorCode, JoinedMember
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import AwaitedProcess, FutureSubscription

FUTURE_PROCESS = UUID(int=2**128 - 1)
"""Stands for the processes of all newer members (``StreamsPartitionAssignor.FUTURE_ID``, which Java draws)."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A member whose user-data could be read."""

    member: JoinedMember
    info: MemberReport

    @property
    def endpoint(self) -> HostInfo | None:
        """Where it answers key lookups; None where it reports no endpoint or one that cannot be read."""
        return read_endpoint(self.info.user_end_point or "")


@dataclass(frozen=True)
class GroupView:
    """All subscriptions of one rebalance, decoded. A process may run several consumers (threads).

    ``version`` is the newest that all members used, ``supported`` the newest that all support. ``future``: members
    whose version is newer than ours, with that version. ``joined_bytes`` is their size in the group's record
    (``group.size``).
    """

    processes: Mapping[UUID, tuple[Consumer, ...]]
    unreadable: Mapping[str, str]
    version: int
    supported: int
    dialect: Dialect = APACHE
    joined_bytes: int = 0
    future: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """Input partition -> the member that owns it as it joins."""
        return {
            partition: consumer.member.member_id for consumer in self._consumers for partition in consumer.member.owned
        }

    @property
    def endpoints(self) -> dict[UUID, HostInfo]:
        """The endpoint of each process that has one: its first member's, if processes share an id."""
        return {
            process: endpoint
            for process, consumers in self.processes.items()
            for consumer in reversed(consumers)
            if (endpoint := consumer.endpoint) is not None
        }

    @property
    def _consumers(self) -> Iterator[Consumer]:
        return chain.from_iterable(self.processes.values())

    @property
    def shutdown_requested(self) -> bool:
        return any(consumer.info.error_code == ErrorCode.SHUTDOWN_REQUESTED for consumer in self._consumers)

    @property
    def partitions_seen(self) -> int:
        """The most source partitions that a Python member knows of; 0 if none knows of more than the leader did."""
        return max((c.info.trailer.partitions for c in self._consumers if c.info.trailer), default=0)

    @cached_property
    def foreign(self) -> list[str]:
        """The members that are not Python members: they carry no trailer."""
        return [consumer.member.member_id for consumer in self._consumers if consumer.info.trailer is None]

    @cached_property
    def draining(self) -> frozenset[UUID]:
        """The processes that are about to leave and want their tasks warmed up elsewhere first."""
        asked = {c.info.process_id for c in self._consumers if c.info.trailer and c.info.trailer.draining}
        return frozenset(asked) if asked != self.processes.keys() else frozenset()

    @cached_property
    def restarting(self) -> frozenset[UUID]:
        """The processes that are about to leave and will be back soon."""
        return frozenset(c.info.process_id for c in self._consumers if c.info.trailer and c.info.trailer.restarting)

    @cached_property
    def reports_of_awaited(self) -> list[tuple[UUID, Mapping[UUID, AwaitedProcess]]]:
        """Each process with an assignment of the newest generation, and whom that awaits.

        A member that missed this generation does not count. One of a release that does not report it may have it.
        """
        reports = [
            (consumer.info.process_id, consumer.info.trailer.awaited, consumer.info.trailer.generation)
            for consumer in self._consumers
            if consumer.info.trailer is not None and consumer.info.trailer.awaited is not None
        ]
        newest = max((generation for _, _, generation in reports if generation is not None), default=None)
        return [(process, awaited) for process, awaited, generation in reports if generation in (None, newest)]

    @property
    def reported_loads(self) -> list[Mapping[TaskId, int]]:
        """The loads that each Python member reports of its tasks."""
        return [consumer.info.trailer.loads for consumer in self._consumers if consumer.info.trailer]

    def with_other_balance(self, balance_by: str) -> list[str]:
        """Return the Python members whose ``balance_by`` is another one."""
        return [
            consumer.member.member_id
            for consumer in self._consumers
            if consumer.info.trailer and consumer.info.trailer.balance_by != balance_by
        ]

    def newest_version_of_all(self, assignor: str) -> int:
        """Return the newest version of this assignor that every member knows; 0 if some do not know it."""
        return min((self._version(consumer, assignor) for consumer in self._consumers), default=0)

    def without_assignor(self, assignor: str) -> list[str]:
        """Return the members that do not know this assignor."""
        return [c.member.member_id for c in self._consumers if not self._version(c, assignor)]

    @staticmethod
    def _version(consumer: Consumer, assignor: str) -> int:
        return consumer.info.trailer.assignors.get(assignor, 0) if consumer.info.trailer else 0

    @property
    def member_ids(self) -> list[str]:
        return [consumer.member.member_id for consumer in self._consumers]


def read_group(members: Sequence[JoinedMember], dialect: Dialect = APACHE) -> GroupView:
    """Decode every member's user-data; unreadable members are listed with the reason."""
    processes: dict[UUID, list[Consumer]] = {}
    unreadable: dict[str, str] = {}
    future: dict[str, int] = {}
    version = supported = dialect.latest_version
    for member in sorted(members, key=lambda m: m.member_id):
        if member.damage is not None:
            unreadable[member.member_id] = member.damage
            continue
        try:
            info = dialect.read_report(member.user_data)
        except MalformedUserData as cause:
            unreadable[member.member_id] = str(cause)
            continue
        supported = min(supported, info.latest_supported_version)
        if isinstance(info, FutureSubscription):
            future[member.member_id] = info.used_version
            info = MemberReport(info.used_version, info.latest_supported_version, FUTURE_PROCESS)
        version = min(version, info.version)
        processes.setdefault(info.process_id, []).append(Consumer(member, info))
    read = {process: tuple(consumers) for process, consumers in processes.items()}
    return GroupView(read, unreadable, version, supported, dialect, joined_bytes(members), future)
