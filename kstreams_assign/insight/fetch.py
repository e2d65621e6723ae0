"""A group's snapshot from its brokers: describe it, read its last generation, look its topics and offsets up.

What cannot be read (a topic without access, offsets that no broker returns) is left out and named in the snapshot's
``gaps``; only the members of the group are required.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import SequenceMatcher
from typing import NamedTuple

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.group_records import last_group_record
from kstreams_assign.adapters.kafka_python import GroupDescriber, describes_groups
from kstreams_assign.adapters.kafka_python.groups import DescribedGroup
from kstreams_assign.client_settings import refuse_settings
from kstreams_assign.errors import BrokerError, GroupNotFound, MalformedUserData, NotAStreamsGroup
from kstreams_assign.insight.client_logs import without_client_logs
from kstreams_assign.insight.record_text import printable
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.snapshot import STABLE, DescribedMember, GroupSnapshot
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot, changelog_partitions, topics_of
from kstreams_assign.observe.topology import CHANGELOG
from kstreams_assign.topology.internal import internal_topics_of, is_internal
from kstreams_assign.wire import (
    DescribedStreamsGroup,
    GroupMetadata,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_group_metadata,
)

AT_REST = frozenset({STABLE, "Empty"})
SETTLE_S = 2.0
RETRY_S = 0.1
GROUPS_NAMED_MAX = 5
STREAMS = "streams"
"""The type of groups of KIP-1071, as the brokers list it."""

_NEWER_PROTOCOLS: Mapping[str, str] = {
    "streams": "uses the streams rebalance protocol (KIP-1071): the broker itself assigns its tasks, no member does",
    "consumer": "uses the consumer rebalance protocol (KIP-848): plain consumers, assigned by the broker",
    "share": "is a share group (KIP-932): its members have no partitions of their own",
}


def no_topic(_topic: str) -> bool:
    """Return False: no topic is wanted beside those of the group."""
    return False


class _LastGeneration(NamedTuple):
    """``metadata`` is None without a record of the group, and if that could not be read (``is_unknown``)."""

    metadata: GroupMetadata | None = None
    assigned_ms: int | None = None
    is_unknown: bool = False


class GroupReader:
    """Takes snapshots of groups. For one thread."""

    def __init__(
        self,
        describer: GroupDescriber,
        admin: ClusterAdmin,
        bootstrap_servers: str,
        client: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self._describer = describer
        self._admin = admin
        self._bootstrap_servers = bootstrap_servers
        self._client = client
        self._timeout_s = timeout_s

    def snapshot(self, group: str, reads: Callable[[str], bool] = no_topic) -> GroupSnapshot:
        """Return the group as it is now; wait two seconds for a rebalance to end.

        ``reads``: which topics are wanted beside those that members subscribe to. Raises ``GroupNotFound``,
        ``NotAStreamsGroup``, ``BrokerUnavailable``.
        """
        described = self._at_rest(group)
        gaps: dict[str, str] = {}
        last = self._last_generation(group, gaps)
        metadata = last.metadata
        present = members = _members(described)
        recorded = _recorded(metadata) if metadata else ()
        rebalances = described.state not in AT_REST
        if rebalances and recorded:
            gaps["members"] = f"the group is {described.state}: what is shown is its last completed generation"
            is_described, members = True, recorded
        else:
            is_described = metadata is not None and _same(members, recorded)
            if metadata is not None and not is_described:
                gaps["generation"] = "the last record is of another generation than the brokers describe"
        known = metadata if is_described else None
        counts = self._topics(group, members, reads, gaps)
        ends, begins = self._bounds(group, counts, gaps)
        return GroupSnapshot(
            group=group,
            state=described.state,
            protocol_type=described.protocol_type,
            protocol=(known.protocol if known else None) or described.protocol,
            members=members,
            taken_ms=wall_ms(),
            generation=known.generation if known else None,
            leader=known.leader if known else None,
            assigned_ms=last.assigned_ms if known else None,
            partition_counts=counts,
            end_offsets=ends,
            begin_offsets=begins,
            committed_metadata=self._committed_metadata(group, members, gaps),
            gaps=gaps,
            joining=_without(present, recorded) if rebalances and not last.is_unknown else (),
            left=tuple(member.member_id for member in _without(recorded, present)) if rebalances else (),
            rebalance_timeout_ms=max((0, *(each.rebalance_timeout_ms for each in known.members)))
            if known and rebalances
            else 0,
        )

    def look(self, group: str, reads: Callable[[str], bool] = no_topic) -> GroupSnapshot | StreamsSnapshot:
        """Return the group as it is now, of the classic or the streams protocol. Raises as ``snapshot`` does."""
        try:
            return self.snapshot(group, reads)
        except NotAStreamsGroup:
            if self._describer.types().get(group) != STREAMS:
                raise
        described = self._describer.describe_streams(group)
        if described is None:
            raise self._not_there(group)
        return self._streams_snapshot(described)

    def _streams_snapshot(self, described: DescribedStreamsGroup) -> StreamsSnapshot:
        gaps: dict[str, str] = {}
        counts, bounds = {}, {}
        try:
            named = topics_of(described)
            counts = {name: count for name, count in self._admin.topics(self._timeout_s).items() if name in named}
        except BrokerError as cause:
            gaps["topics"] = f"topics could not be listed: {cause}"
        try:
            bounds = self._admin.bounds(changelog_partitions(described, counts), self._timeout_s)
        except BrokerError as cause:
            gaps["end_offsets"] = f"the changelogs' offsets could not be read: {cause}"
        return StreamsSnapshot(
            group=described,
            taken_ms=wall_ms(),
            partition_counts=counts,
            end_offsets={partition: end for partition, (_, end) in bounds.items()},
            begin_offsets={partition: begin for partition, (begin, _) in bounds.items()},
            settings=self._group_settings(described.group_id, gaps),
            gaps=gaps,
        )

    def _group_settings(self, group: str, gaps: dict[str, str]) -> dict[str, str]:
        try:
            settings = self._describer.group_settings(group)
        except BrokerError as cause:
            gaps["settings"] = f"the broker's settings of the group could not be read: {cause}"
            return {}
        return {name: value for name, value in settings.items() if name.startswith(f"{STREAMS}.")}

    def _at_rest(self, group: str) -> DescribedGroup:
        deadline = time.monotonic() + SETTLE_S
        described = self._described(group)
        while described.state not in AT_REST and time.monotonic() < deadline:
            threading.Event().wait(RETRY_S)
            described = self._described(group)
        return described

    def _described(self, group: str) -> DescribedGroup:
        described = self._describer.describe(group)
        if described is None:
            raise self._not_there(group)
        if described.state == "Empty" and not described.protocol_type:
            raise NotAStreamsGroup(
                f"group {group} is a simple consumer group: it has committed offsets, but it never had members"
            )
        return described

    def _not_there(self, group: str) -> GroupNotFound | NotAStreamsGroup:
        types = self._describer.types()
        if group in types:
            newer = _NEWER_PROTOCOLS.get(types[group], f"is of the type {types[group]!r}")
            return NotAStreamsGroup(f"group {group} {newer}; there is no Streams user-data in it to look into")
        return GroupNotFound(f"no group {group} on {self._bootstrap_servers}; {name_groups(group, types)}")

    def _last_generation(self, group: str, gaps: dict[str, str]) -> _LastGeneration:
        try:
            record = last_group_record(self._bootstrap_servers, self._client, group, self._timeout_s)
            if record is not None and record.value is not None:
                return _LastGeneration(decode_group_metadata(record.value), record.timestamp_ms)
        except (BrokerError, MalformedUserData) as cause:
            gaps["generation"] = f"generation and leader could not be read: {cause}"
            return _LastGeneration(is_unknown=True)
        gaps["generation"] = "no record of the group was found in __consumer_offsets"
        return _LastGeneration()

    def _topics(
        self, group: str, members: Iterable[DescribedMember], reads: Callable[[str], bool], gaps: dict[str, str]
    ) -> dict[str, int]:
        """Return the topics that members subscribe to, or ``reads`` names, and the group's internal topics."""
        try:
            there = self._admin.topics(self._timeout_s)
            groups = self._describer.types()
        except BrokerError as cause:
            gaps["topics"] = f"topics and groups could not be listed: {cause}"
            return {}
        named = {topic for member in members for topic in _subscribed(member)}.union(
            internal_topics_of(group, there, groups)
        )
        return {name: count for name, count in there.items() if name in named or reads(name)}

    def _committed_metadata(
        self, group: str, members: Iterable[DescribedMember], gaps: dict[str, str]
    ) -> dict[TopicPartition, str]:
        """Return the metadata beside the committed offsets of what the members read."""
        try:
            read = self._describer.committed_metadata(group, {at for each in members for at in _reads(each)})
        except BrokerError as cause:
            gaps["committed_metadata"] = f"which tasks are paused could not be read: {cause}"
            return {}
        return {partition: text for partition, text in read.items() if text}

    def _bounds(
        self, group: str, counts: Mapping[str, int], gaps: dict[str, str]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        named = [topic for topic in counts if is_internal(group, topic) and topic.endswith(CHANGELOG)]
        wanted = [TopicPartition(topic, number) for topic in named for number in range(counts[topic])]
        read = [topic for topic in counts if not is_internal(group, topic)]
        inputs = [TopicPartition(topic, number) for topic in read for number in range(counts[topic])]
        try:
            bounds = self._admin.bounds(wanted, self._timeout_s)
        except BrokerError as cause:
            gaps["end_offsets"] = f"the changelogs' offsets could not be read: {cause}"
            return {}, {}
        ends = {partition: end for partition, (_, end) in bounds.items()}
        try:
            committed = self._describer.committed_offsets(group)
            ends.update((partition, committed.get(partition, 0)) for partition in inputs)
        except BrokerError as cause:
            gaps["committed_offsets"] = f"the group's committed offsets could not be read: {cause}"
        return ends, {partition: begin for partition, (begin, _) in bounds.items()}


def name_groups(wanted: str, groups: Collection[str]) -> str:
    """Return which groups exist, those whose names are closest to ``wanted`` first, at most five."""
    if not groups:
        return "there are no groups yet"
    closest = sorted(groups, key=lambda name: (-SequenceMatcher(None, wanted, name).ratio(), name))
    more = len(groups) - GROUPS_NAMED_MAX
    names = printable(", ".join(closest[:GROUPS_NAMED_MAX]))
    return f"the groups there are: {names}{f' and {more:,} more' if more > 0 else ''}"


@contextmanager
def group_reader(
    bootstrap_servers: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> Iterator[GroupReader]:
    """Yield a reader. Raises ``BrokerUnavailable`` if no broker answers within ``timeout_s``."""
    refuse_settings(client or {})
    with ExitStack() as stack:
        stack.enter_context(without_client_logs(client or {}))
        admin = ClusterAdmin(bootstrap_servers, client)
        admin.reach(timeout_s)  # explains best why no broker answers
        describer = stack.enter_context(describes_groups(bootstrap_servers, client, timeout_s))
        yield GroupReader(describer, admin, bootstrap_servers, client or {}, timeout_s)


def take_snapshot(
    bootstrap_servers: str, group: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> GroupSnapshot:
    """One snapshot; raises as ``GroupReader.snapshot`` and ``group_reader`` do."""
    with group_reader(bootstrap_servers, client, timeout_s) as reader:
        return reader.snapshot(group)


def _subscribed(member: DescribedMember) -> tuple[str, ...]:
    try:
        return decode_consumer_subscription(member.subscription).topics
    except MalformedUserData:  # reported where the group is decoded
        return ()


def _reads(member: DescribedMember) -> tuple[TopicPartition, ...]:
    try:
        return decode_consumer_assignment(member.assignment).assigned_partitions if member.assignment else ()
    except MalformedUserData:  # reported where the group is decoded
        return ()


def _members(described: DescribedGroup) -> tuple[DescribedMember, ...]:
    return tuple(
        DescribedMember(
            member.member_id,
            member.client_id,
            member.client_host,
            member.instance_id,
            member.metadata,
            member.assignment,
        )
        for member in sorted(described.members, key=lambda member: member.member_id)
    )


def _without(members: Iterable[DescribedMember], others: Iterable[DescribedMember]) -> tuple[DescribedMember, ...]:
    ids = {other.member_id for other in others}
    return tuple(member for member in members if member.member_id not in ids)


def _recorded(metadata: GroupMetadata) -> tuple[DescribedMember, ...]:
    return tuple(
        DescribedMember(
            member.member_id,
            member.client_id,
            member.client_host,
            member.group_instance_id,
            member.subscription,
            member.assignment,
        )
        for member in sorted(metadata.members, key=lambda member: member.member_id)
    )


def _same(members: tuple[DescribedMember, ...], recorded: tuple[DescribedMember, ...]) -> bool:
    return {member.member_id: member.assignment for member in members} == {
        member.member_id: member.assignment for member in recorded
    }
