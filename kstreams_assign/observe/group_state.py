"""A group between two rebalances: which process has which task, and the position of every replica.

``played`` starts from this value. What lives here: its parts, and how it is built from an assignor's input or an
observed group. What must not: decisions. A rule of this module fills in what the sources do not contain, and
``assumed`` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Client, Cluster, Loads, distribute, is_caught_up
from kstreams_assign.errors import ConfigError, NotAStreamsGroup
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.probing import FLOOR_MS
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    UNKNOWN_OFFSET_SUM,
    Store,
    SubtopologyShape,
    TaskId,
    TopologyShape,
    process_order,
)
from kstreams_assign.observe.cluster import CLEANUP_DELAY_MS, ObservedGroup
from kstreams_assign.observe.decoded import DecodedProcess
from kstreams_assign.wire import BY_NUMBER, LATEST_SUPPORTED_VERSION, MemberTrailer

NO_TASKS: frozenset[TaskId] = frozenset()
PACE = ("state_cleanup_delay_ms", "early_probing", "early_probing_floor_ms", "warmup_queue")
"""The settings of a ``GroupState`` beside ``AssignConfig``."""


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """One member: its active tasks and its replicas (standbys, warm-ups)."""

    member_id: str
    active: frozenset[TaskId] = NO_TASKS
    copies: frozenset[TaskId] = NO_TASKS


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process. ``about`` is what each of its members reports beside tasks: endpoint, tags, versions, our trailer.

    ``positions``: task -> the offset sum of its state here, ``UNKNOWN_OFFSET_SUM`` if not known; running tasks are at
    the end. A position of a task that is neither active nor a replica belongs to state that a revoked task left.
    """

    consumers: tuple[ConsumerState, ...]
    about: MemberReport
    positions: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def process_id(self) -> UUID:
        return self.about.process_id

    @property
    def ours(self) -> bool:
        return self.about.trailer is not None

    @property
    def exactly_once(self) -> bool:
        return self.about.trailer is not None and self.about.trailer.exactly_once

    @property
    def active(self) -> frozenset[TaskId]:
        return frozenset().union(*(consumer.active for consumer in self.consumers))

    @property
    def copies(self) -> frozenset[TaskId]:
        return frozenset().union(*(consumer.copies for consumer in self.consumers))


@dataclass(frozen=True)
class GroupState:
    """A whole group. ``ends``: stateful task -> sum of its changelogs' end offsets, which do not change.

    ``loads``: those of tasks, as far as they are reported (``balance_by``); they do not change either.
    ``promised``: tasks that a KIP-429 rebalance under way withholds, with the process that gets each.
    ``rebalance_in_ms``: when a member asks for the next rebalance if nothing happens before; 0 for a follow-up, None
    for never. The fields from ``state_cleanup_delay_ms`` on set the pace; Java members have no early probing and no
    queue.
    """

    processes: Mapping[UUID, ProcessState]
    topology: TopologyShape
    partition_counts: Mapping[str, int]
    ends: Mapping[TaskId, int]
    assignor: str
    config: AssignConfig
    leader: UUID
    promised: Mapping[TaskId, UUID] = field(default_factory=dict)
    loads: Loads = field(default_factory=dict)
    rebalance_in_ms: int | None = None
    application_id: str = "group"
    assumed: Mapping[str, str] = field(default_factory=dict)
    state_cleanup_delay_ms: int = CLEANUP_DELAY_MS
    early_probing: bool = True
    early_probing_floor_ms: int = FLOOR_MS
    warmup_queue: bool = False


def report_of(
    process: UUID, *, ours: bool, tags: Mapping[str, str], balance_by: str = BY_NUMBER, exactly_once: bool = False
) -> MemberReport:
    """Return the report, without tasks, of a member of a process of this release or of Java's."""
    newest = LATEST_SUPPORTED_VERSION
    trailer = MemberTrailer(known_assignors(), balance_by=balance_by, exactly_once=exactly_once) if ours else None
    return MemberReport(newest, newest, process, client_tags=tags, trailer=trailer)


def ends_not_known(tasks: Iterable[TaskId], config: AssignConfig) -> dict[TaskId, int]:
    """Return ends for a group without sampled offsets: every replica counts as caught up, a missing one as behind."""
    return dict.fromkeys(tasks, config.acceptable_recovery_lag + 1)


def state_of_cluster(
    cluster: Cluster,
    ends: Mapping[TaskId, int],
    config: AssignConfig,
    assignor: str,
    *,
    ours: Mapping[UUID, bool] | None = None,
    rebalance_in_ms: int | None = None,
) -> GroupState:
    """Build a group from an assignor's input, for callers without bytes. ``ours``: by default all processes are.

    Members are named after their process, and tasks spread over them as a leader would. Raises ``ConfigError`` if a
    subtopology lacks one of its tasks, or for tasks of named topologies.
    """
    topology, counts = _topology(cluster)
    mine = {client.process_id: ours is None or ours.get(client.process_id, True) for client in cluster.clients}
    processes = [_process(client, cluster, ends, config, ours=mine[client.process_id]) for client in cluster.clients]
    return GroupState(
        processes={process.process_id: process for process in processes},
        topology=topology,
        partition_counts=counts,
        ends={task: ends[task] for task in sorted(cluster.stateful)},
        assignor=assignor,
        config=config,
        leader=min((process.process_id for process in processes), key=process_order, default=UUID(int=0)),
        loads=cluster.loads,
        rebalance_in_ms=rebalance_in_ms,
    )


def _topology(cluster: Cluster) -> tuple[TopologyShape, dict[str, int]]:
    """Give each subtopology one input and at most one store: decisions depend on nothing more."""
    sizes: dict[int, int] = {}
    for task in cluster.tasks:
        if task.topology is not None:
            raise ConfigError(f"task {task}: groups of named topologies are not supported here")
        sizes[task.subtopology] = sizes.get(task.subtopology, 0) + 1
    shapes, counts = [], {}
    for number in range(max(sizes, default=-1) + 1):
        source, size = f"source-{number}", sizes.get(number, 0)
        missing = [p for p in range(size) if TaskId(number, p) not in cluster.tasks]
        if missing:
            raise ConfigError(f"task {number}_{missing[0]} is missing, but later tasks of the subtopology are present")
        stateful = size > 0 and TaskId(number, 0) in cluster.stateful
        shapes.append(SubtopologyShape((source,) if size else (), (Store(f"store-{number}"),) if stateful else ()))
        counts.update({source: size} if size else {})
    return TopologyShape(tuple(shapes)), counts


def _process(
    client: Client, cluster: Cluster, ends: Mapping[TaskId, int], config: AssignConfig, *, ours: bool
) -> ProcessState:
    names = [f"{client.process_id}-{number}" for number in range(1, client.capacity + 1)]
    stateful = client.prev_active & cluster.stateful
    copies = client.prev_standby & cluster.stateful
    spread = distribute(stateful, copies, client.prev_active & cluster.stateless, names, {})
    about = report_of(client.process_id, ours=ours, tags=client.tags, balance_by=config.balance_by)
    return ProcessState(
        tuple(
            ConsumerState(name, frozenset(placed.active), frozenset(placed.standby)) for name, placed in spread.items()
        ),
        about,
        {task: _position(client.lags[task], ends[task]) for task in sorted(stateful | copies)},
    )


def _position(lag: int, end: int) -> int:
    if lag == RUNNING_OFFSET_SUM:
        return end
    return UNKNOWN_OFFSET_SUM if lag < 0 else max(0, end - lag)


def state_of_group(group: ObservedGroup) -> GroupState:
    """Build a group from an observed one. Raises ``NotAStreamsGroup`` (no members) or ``ConfigError`` (no tasks)."""
    decoded, snapshot = group.decoded, group.decoded.snapshot
    if not decoded.processes:
        raise NotAStreamsGroup(
            f"group {snapshot.group} has no members whose user-data can be read, so nothing can be predicted"
        )
    if not group.tasks:
        raise ConfigError(
            f"group {snapshot.group}: no tasks are known; describe its subtopologies with --topology FILE"
        )
    assumed = dict(group.assumed)
    ends = dict(group.end_offset_sums) if group.ends_known else ends_not_known(sorted(group.stateful), group.config)
    if not group.ends_known:
        assumed["end offsets"] = "not known: every replica counts as caught up, and a process without a replica as cold"
    due_ms = decoded.next_rebalance_ms
    assumed["copies"] = (
        "at the end of their changelogs: the group asks for no rebalance"
        if due_ms is None
        else "at the positions reported at the last join; those within the acceptable lag then count as caught up"
    )
    assumed["active tasks"] = "all count as running: members do not report the progress of a restore"
    assumed["changelogs"] = "do not grow during the simulation"
    loads = group.cluster_at_next_join().loads
    if loads:
        assumed["loads"] = "as members reported them at the last join; they do not change during the simulation"
    if decoded.awaited:
        assumed["restarts"] = "none: the processes that the group awaits do not come back, and no task waits for them"
    processes = {
        process.process_id: _observed_process(group, process, ends, rest=due_ms is None or not group.ends_known)
        for process in decoded.processes
    }
    return GroupState(
        processes=processes,
        topology=group.topology.shape,
        partition_counts=snapshot.partition_counts,
        ends=ends,
        assignor=group.settings.assignor,
        config=group.config,
        leader=_leader(group, assumed),
        promised=decoded.promised,
        loads=loads,
        rebalance_in_ms=max(1, due_ms - snapshot.taken_ms) if due_ms else due_ms,
        application_id=snapshot.group,
        assumed=assumed,
        warmup_queue=bool(decoded.trailer and decoded.trailer.at_once),
    )


def _leader(group: ObservedGroup, assumed: dict[str, str]) -> UUID:
    processes = group.decoded.processes
    leader = group.decoded.snapshot.leader
    for process in processes:
        if any(member.member_id == leader for member in process.members):
            return process.process_id
    first = min(processes, key=lambda process: min(member.member_id for member in process.members))
    assumed["leader"] = f"process {first.process_id}, the first by member id: the group's leader is not known"
    return first.process_id


def _observed_process(
    group: ObservedGroup, process: DecodedProcess, ends: Mapping[TaskId, int], *, rest: bool
) -> ProcessState:
    consumers = []
    for member in process.members:
        given = member.given
        active = frozenset(given.active) & group.tasks.keys() if given else NO_TASKS
        copies = (given.standby | given.warmup) & ends.keys() if given else NO_TASKS
        consumers.append(ConsumerState(member.member_id, active, copies))
    deleted = group.deleted_state(process)
    reported = {task: position for task, position in process.positions(ends).items() if task not in deleted}
    acceptable = group.config.acceptable_recovery_lag
    positions = {}
    for task in sorted({*reported, *(process.active & ends.keys()), *(process.copies & ends.keys())}):
        reported_sum, end = reported.get(task, 0), ends[task]
        near = reported_sum == RUNNING_OFFSET_SUM or (
            0 <= reported_sum <= end and is_caught_up(end - reported_sum, acceptable)
        )
        ended = task in process.active or (task in process.copies and rest) or near
        positions[task] = end if ended else reported_sum
    return ProcessState(tuple(consumers), _without_restarts(process.report), positions)


def _without_restarts(report: MemberReport) -> MemberReport:
    """Return the report of a group in which no process is awaited: nobody knows when it will be back."""
    if report.trailer is None:
        return report
    return replace(report, trailer=replace(report.trailer, restarting=False, awaited=None))
