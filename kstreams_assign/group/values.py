"""What crosses the group's protocol, as values: who joined, what was decided, what a member is given.

No bytes of the consumer protocol here (``joining`` reads those) and no decisions (``leader``, ``member``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Placement, Plan
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION

Hosts = Mapping[HostInfo, tuple[TopicPartition, ...]]
"""Endpoint of a process -> input partitions that it has."""


class ErrorCode(IntEnum):
    """Kafka's ``AssignorError``: what a leader answers, or a member reports, instead of tasks."""

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    VERSION_PROBING = 2
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


class MemberId(NamedTuple):
    """Who commits: a member in a generation. ``instance_id`` is a static member's (``group.instance.id``)."""

    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One entry of a JoinGroup response as the leader gets it (``ConsumerPartitionAssignor.Subscription``).

    ``damage``: why its bytes could not be read; they are its ``user_data`` then, and nothing else is known of it.
    """

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    user_data: bytes
    instance_id: str | None = None
    rack: str | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What one member is sent: its input partitions and AssignmentInfo bytes."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class Standing:
    """What the leader decided, and from what: the state from which the next rebalance starts."""

    cluster: Cluster
    plan: Plan
    config: AssignConfig
    assign: Assignor


@dataclass(frozen=True, slots=True)
class Decision:
    """A leader's decision and how it came about; everything but ``assignments`` is for people and logs.

    ``kind`` is ``round``, or ``follow_up`` where a KIP-429 follow-up only completes the round before.
    ``standing`` is where the next rebalance starts from. ``withheld`` maps each active task that its old owner must let go first to the process that waits for it.
    ``record_bytes``: what the group's record takes of the brokers with it (``group.size``).
    """

    assignments: Mapping[str, MemberAssignment]
    assignor: str
    kind: str
    placements: Mapping[UUID, Placement] = field(default_factory=dict)
    changed: Mapping[TaskId, tuple[UUID, UUID]] = field(default_factory=dict)
    adopted: tuple[TaskId, ...] = ()
    owner_changes_lower_bound: int = 0
    withheld: Mapping[TaskId, UUID] = field(default_factory=dict)
    next_probe_ms: int | None = None
    error: ErrorCode = ErrorCode.NONE
    warnings: tuple[str, ...] = ()
    assignor_version: int | None = None
    standing: Standing | None = None
    record_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WarmupQueue:
    """Warm-ups that are restored one after the other: in this order, and ``at_once`` of them at a time."""

    order: tuple[TaskId, ...]
    at_once: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """An assignment as its member reads it.

    ``next_rebalance_ms`` is wall-clock time; 0 asks for a rejoin at once, ``NO_PROBE_MS`` for none.
    ``warmups``: the whole group's, of which ``warmup`` is this process's part; empty too where the leader does not tell
    (``assignor`` is None then). ``draining``: the leader knows that this member is about to leave. ``version``: to be joined with from now on, at once
    if it is another than this member used (``group.versions``). ``source_partitions``: how many the leader decided for, None where it does not tell. ``follow_up`` says that a rebalance comes next for certain, so whoever knows need not wait to be told.
    """

    active: Mapping[TaskId, tuple[TopicPartition, ...]]
    standby: frozenset[TaskId]
    warmup: frozenset[TaskId]
    next_rebalance_ms: int = NO_PROBE_MS
    next_probe_ms: int | None = None
    follow_up: bool = False
    promised: Mapping[TaskId, UUID] = field(default_factory=dict)
    assignor: str | None = None
    warnings: tuple[str, ...] = ()
    queue: WarmupQueue | None = None
    draining: bool = False
    hosts: Hosts = field(default_factory=dict)
    standby_hosts: Hosts = field(default_factory=dict)
    warmups: Mapping[UUID, tuple[TaskId, ...]] = field(default_factory=dict)
    version: int = LATEST_SUPPORTED_VERSION
    source_partitions: int | None = None

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Whatever the member is to them."""
        return self.standby | self.warmup | self.active.keys()
