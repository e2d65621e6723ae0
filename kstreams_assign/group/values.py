"""The messages of the group's protocol as values: members that join, the decision, a member's assignment.

The bytes of the consumer protocol are in ``joining``; decisions are in ``leader`` and ``member``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Assignor, Cluster, Placement, Plan
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION, AwaitedProcess

Hosts = Mapping[HostInfo, tuple[TopicPartition, ...]]
"""Endpoint of a process -> its input partitions."""


class ErrorCode(IntEnum):
    """Kafka's ``AssignorError``: what a leader answers, or a member reports, instead of tasks."""

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    VERSION_PROBING = 2
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


class MemberId(NamedTuple):
    """The member and generation of a commit. ``instance_id`` is set for a static member (``group.instance.id``)."""

    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One entry of a JoinGroup response as the leader gets it (``ConsumerPartitionAssignor.Subscription``).

    ``damage``: why its bytes could not be read; then they are its ``user_data``, and nothing else is known of it.
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
    """What one member receives: its input partitions and AssignmentInfo bytes."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The leader's decision with its inputs: the state from which the next rebalance starts.

    ``endpoints``: those of the processes that have one (``GroupView.endpoints``).
    """

    cluster: Cluster
    plan: Plan
    config: AssignConfig
    assign: Assignor
    endpoints: Mapping[UUID, HostInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """A leader's decision and its reasons; everything except ``assignments`` is for people and logs.

    ``kind`` is ``round``, or ``follow_up`` where a KIP-429 follow-up only completes the previous round. ``standing``
    is the state from which the next rebalance starts. ``withheld`` maps each active task that its old owner must
    release first to the process that waits for it. ``record_bytes`` is the size of the group's record with this
    decision (``group.size``). ``waiting`` maps each task that waits for a process that restarts to that process;
    ``awaited`` are all such processes, and ``wait_ends_ms`` is when the first wait ends.
    ``restored_sooner`` are the plan's ``restores``.
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
    standing: LeaderState | None = None
    record_bytes: int = 0
    waiting: Mapping[TaskId, UUID] = field(default_factory=dict)
    awaited: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    wait_ends_ms: int | None = None
    restored_sooner: Mapping[TaskId, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WarmupQueue:
    """Warm-ups that are restored in this order, ``at_once`` of them at a time."""

    order: tuple[TaskId, ...]
    at_once: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """An assignment as its member reads it.

    ``next_rebalance_ms`` is wall-clock time; 0 asks for a rejoin at once, ``NO_PROBE_MS`` for none. ``warmups`` are
    the whole group's, of which ``warmup`` is this process's part; they are empty if the leader does not send them
    (then ``assignor`` is None). ``draining``: the leader knows that this member is about to leave; ``others_drain``:
    that a process of another id is. ``version``: the version to join with from now on, at once if it differs from the
    last one (``group.versions``).
    ``source_partitions``: the number that the leader decided for, None if unknown. ``follow_up``: a rebalance
    certainly comes next, so the member need not wait for a heartbeat. ``awaited``: processes that restart. ``loads``:
    those by which tasks were balanced, of this process's tasks at least.
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
    others_drain: bool = False
    hosts: Hosts = field(default_factory=dict)
    standby_hosts: Hosts = field(default_factory=dict)
    warmups: Mapping[UUID, tuple[TaskId, ...]] = field(default_factory=dict)
    version: int = LATEST_SUPPORTED_VERSION
    source_partitions: int | None = None
    awaited: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    loads: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """All tasks of the member, in any role."""
        return self.standby | self.warmup | self.active.keys()

    def roles(self) -> dict[TaskId, str]:
        """Each task's role."""
        warmup, standby = dict.fromkeys(self.warmup, "warmup"), dict.fromkeys(self.standby, "standby")
        return {**warmup, **standby, **dict.fromkeys(self.active, "active")}
