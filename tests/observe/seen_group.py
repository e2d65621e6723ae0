"""A small group, with its generations as a broker describes them: real bytes, no broker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.values import Decision, JoinedMember
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedGroup, decode_group
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.snapshot import DescribedMember, GroupSnapshot
from kstreams_assign.observe.topology import ObservedTopology, inferred_topology
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)
from tests.group.little_group import APPLICATION, END, LittleGroup, shape

CHANGELOG = f"{APPLICATION}-totals-changelog"


@dataclass
class SeenGroup(LittleGroup):
    """Keeps the last generation's bytes."""

    joined: list[JoinedMember] = field(default_factory=list)
    java_leads: bool = False
    later_assignor: str | None = None
    digest: str = ""
    leaving: UUID | None = None
    end: int = END

    def rebalance(self) -> Decision:
        self.joined = [member.joins(self.dialect) for member in self.members.values()]
        return super().rebalance()

    def snapshot(self) -> GroupSnapshot:
        partitions = range(self.counts["orders"])
        changelogs = [TopicPartition(CHANGELOG, partition) for partition in partitions]
        return GroupSnapshot(
            group=APPLICATION,
            state="Stable",
            protocol_type="consumer",
            protocol=self.dialect.protocol_name,
            members=tuple(self._described(member) for member in self.joined),
            taken_ms=self.now_ms,
            generation=7,
            leader=min(member.member_id for member in self.joined),
            partition_counts={**self.counts, CHANGELOG: len(partitions)},
            end_offsets=dict.fromkeys(changelogs, self.end),
            begin_offsets=dict.fromkeys(changelogs, 0),
        )

    def _described(self, joined: JoinedMember) -> DescribedMember:
        assert self.decision is not None
        given = self.decision.assignments[joined.member_id]
        info = self.dialect.read_assignment(given.user_data)
        if self.java_leads:  # Java writes no trailer
            info = replace(info, trailer=None)
        if self.later_assignor is not None:
            assert info.trailer is not None
            info = replace(info, trailer=replace(info.trailer, assignor=self.later_assignor))
        (user_data,) = self.dialect.write_assignments([info])
        return DescribedMember(
            member_id=joined.member_id,
            client_id=f"client-of-{joined.member_id}",
            client_host="/127.0.0.1",
            instance_id=joined.instance_id,
            subscription=encode_consumer_subscription(
                ConsumerSubscription(
                    3 if joined.rack else 1, joined.topics, self._user_data(joined), joined.owned, rack_id=joined.rack
                )
            ),
            assignment=encode_consumer_assignment(ConsumerAssignment(1, given.partitions, user_data)),
        )

    def _user_data(self, joined: JoinedMember) -> bytes:
        report = self.dialect.read_report(joined.user_data)
        if not isinstance(report, MemberReport) or report.trailer is None:
            return joined.user_data
        drains = report.process_id == self.leaving
        trailer = replace(report.trailer, settings_digest=self.digest, draining=drains)
        return self.dialect.write_report(replace(report, trailer=trailer))

    def decoded(self) -> DecodedGroup:
        return decode_group(self.snapshot())

    def observed(self, topology: ObservedTopology | None = None, **given: object) -> ObservedGroup:
        decoded = self.decoded()
        return ObservedGroup(decoded, topology or inferred_topology(decoded), settings_of(decoded, given))


def of_later_release(*, assignor: str | None = None, balance_by: str = "tasks") -> SeenGroup:
    """Return a group whose members report values that this release does not know."""
    group = settled()
    group.later_assignor = assignor
    for member in group.members.values():
        member.balance_by = balance_by
    group.rebalance()
    return group


def scaled_out(
    *, members: int = 2, partitions: int = 6, ours: bool = True, dialect: Dialect = APACHE, **settings: object
) -> SeenGroup:
    """Settled with all but the last member; the last one has just been given its warm-ups."""
    group = settled(members=members - 1, partitions=partitions, ours=ours, dialect=dialect, **settings)
    group.add(members).ours = ours
    group.rebalance()
    return group


def settled(
    *, members: int = 2, partitions: int = 6, ours: bool = True, dialect: Dialect = APACHE, **settings: object
) -> SeenGroup:
    config = replace(AssignConfig(acceptable_recovery_lag=100, max_warmup_replicas=2), **settings)
    counts = {"orders": partitions, "clicks": 3}
    group = SeenGroup(shape(), counts, config, dialect=dialect, java_leads=not ours)
    for number in range(1, members + 1):
        group.add(number).ours = ours
    group.settle()
    return group
