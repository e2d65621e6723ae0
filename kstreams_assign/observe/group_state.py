"""A group between two rebalances: who has which task, and how far every copy has got.

The value that ``played`` plays on from. What lives here: its parts, and how it is made of what assignors take or of an observed
group. What must not: decisions. Where the sources tell nothing a rule of this module fills in and is named in ``assumed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Client, Cluster, distribute, is_caught_up
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
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import DecodedProcess
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION, MemberTrailer

NO_TASKS: frozenset[TaskId] = frozenset()
CLEANUP_DELAY_MS = 600_000
"""Default of ``state_cleanup_delay_ms``: for how long the state of a task that left is kept, and reported."""

PACE = ("state_cleanup_delay_ms", "early_probing", "early_probing_floor_ms", "warmup_queue")
"""The settings of a ``GroupState`` beside ``AssignConfig``."""


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """One member: what it runs, and of what it keeps a copy (standbys, warm-ups)."""

    member_id: str
    active: frozenset[TaskId] = NO_TASKS
    copies: frozenset[TaskId] = NO_TASKS


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process. ``about`` is what each of its members tells beside tasks: endpoint, tags, versions, our trailer.

    ``positions``: task -> the offset sum that its state here has got to, ``UNKNOWN_OFFSET_SUM`` where that is not known;
    tasks that run stand at the end. What is neither active nor a copy is state that a task left behind.
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
    def active(self) -> frozenset[TaskId]:
        return frozenset().union(*(one.active for one in self.consumers))

    @property
    def copies(self) -> frozenset[TaskId]:
        return frozenset().union(*(one.copies for one in self.consumers))


@dataclass(frozen=True)
class GroupState:
    """A whole group. ``ends``: stateful task -> where its changelogs end, added up. They are taken to stay where they are.

    ``promised``: tasks that a KIP-429 rebalance under way withholds, with the process that gets each. ``rebalance_in_ms``:
    when a member asks for the next rebalance if nothing happens before; 0 for a follow-up, None for never. The fields
    from ``state_cleanup_delay_ms`` on are settings that decide when what happens; Java members have no early probing and no queue.
    """

    processes: Mapping[UUID, ProcessState]
    topology: TopologyShape
    partition_counts: Mapping[str, int]
    ends: Mapping[TaskId, int]
    assignor: str
    config: AssignConfig
    leader: UUID
    promised: Mapping[TaskId, UUID] = field(default_factory=dict)
    rebalance_in_ms: int | None = None
    application_id: str = "group"
    assumed: Mapping[str, str] = field(default_factory=dict)
    state_cleanup_delay_ms: int = CLEANUP_DELAY_MS
    early_probing: bool = True
    early_probing_floor_ms: int = FLOOR_MS
    warmup_queue: bool = False


def report_of(process: UUID, *, ours: bool, tags: Mapping[str, str]) -> MemberReport:
    """What a member of a process of this release, or of Java's, tells of itself beside tasks."""
    newest, trailer = LATEST_SUPPORTED_VERSION, MemberTrailer(known_assignors()) if ours else None
    return MemberReport(newest, newest, process, client_tags=tags, trailer=trailer)


def ends_not_known(tasks: Iterable[TaskId], config: AssignConfig) -> dict[TaskId, int]:
    """Ends that stand for those which were not sampled: whoever has a copy has caught up, whoever has none has not."""
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
    """A group from what an assignor is given, for those who have no bytes. ``ours``: default, every process is.

    Members are named after their process and spread over it as a leader would. Raises ``ConfigError`` where a
    subtopology lacks one of its tasks, or tasks are of named topologies: no topology has such tasks.
    """
    topology, counts = _topology(cluster)
    mine = {client.process_id: ours is None or ours.get(client.process_id, True) for client in cluster.clients}
    processes = [_process(client, cluster, ends, ours=mine[client.process_id]) for client in cluster.clients]
    return GroupState(
        processes={one.process_id: one for one in processes},
        topology=topology,
        partition_counts=counts,
        ends={task: ends[task] for task in sorted(cluster.stateful)},
        assignor=assignor,
        config=config,
        leader=min((one.process_id for one in processes), key=process_order, default=UUID(int=0)),
        rebalance_in_ms=rebalance_in_ms,
    )


def _topology(cluster: Cluster) -> tuple[TopologyShape, dict[str, int]]:
    """One input and at most one store a subtopology: decisions look at nothing more."""
    sizes: dict[int, int] = {}
    for task in cluster.tasks:
        if task.topology is not None:
            raise ConfigError(f"task {task}: groups of named topologies cannot be played on")
        sizes[task.subtopology] = sizes.get(task.subtopology, 0) + 1
    shapes, counts = [], {}
    for number in range(max(sizes, default=-1) + 1):
        source, size = f"source-{number}", sizes.get(number, 0)
        missing = [p for p in range(size) if TaskId(number, p) not in cluster.tasks]
        if missing:
            raise ConfigError(f"task {number}_{missing[0]} is missing while tasks after it are there")
        stateful = size > 0 and TaskId(number, 0) in cluster.stateful
        shapes.append(SubtopologyShape((source,) if size else (), (Store(f"store-{number}"),) if stateful else ()))
        counts.update({source: size} if size else {})
    return TopologyShape(tuple(shapes)), counts


def _process(client: Client, cluster: Cluster, ends: Mapping[TaskId, int], *, ours: bool) -> ProcessState:
    names = [f"{client.process_id}-{number}" for number in range(1, client.capacity + 1)]
    stateful = client.prev_active & cluster.stateful
    copies = client.prev_standby & cluster.stateful
    spread = distribute(stateful, copies, client.prev_active & cluster.stateless, names, {})
    about = report_of(client.process_id, ours=ours, tags=client.tags)
    return ProcessState(
        tuple(ConsumerState(name, frozenset(one.active), frozenset(one.standby)) for name, one in spread.items()),
        about,
        {task: _position(client.lags[task], ends[task]) for task in sorted(stateful | copies)},
    )


def _position(lag: int, end: int) -> int:
    if lag == RUNNING_OFFSET_SUM:
        return end
    return UNKNOWN_OFFSET_SUM if lag < 0 else max(0, end - lag)


def state_of_group(group: ObservedGroup) -> GroupState:
    """A group as it was observed. Raises ``NotAStreamsGroup`` for one without members, ``ConfigError`` without tasks."""
    decoded, snapshot = group.decoded, group.decoded.snapshot
    if not decoded.processes:
        raise NotAStreamsGroup(f"group {snapshot.group} has no members whose user-data can be read: nothing to play on")
    if not group.tasks:
        raise ConfigError(f"group {snapshot.group}: no tasks are known; describe its subtopologies by --topology FILE")
    assumed = dict(group.assumed)
    ends = dict(group.end_offset_sums) if group.ends_known else ends_not_known(sorted(group.stateful), group.config)
    if not group.ends_known:
        assumed["end offsets"] = "not known: every copy counts as caught up, and whoever has none as cold"
    due_ms = decoded.next_rebalance_ms
    assumed["copies"] = (
        "at the end of their changelogs: the group asks for no rebalance"
        if due_ms is None
        else "as far as they told when they last joined; what was within the acceptable lag then has caught up"
    )
    assumed["active tasks"] = "all run; how far one is that is still restoring is told by nothing"
    assumed["changelogs"] = "do not grow meanwhile"
    processes = {
        one.process_id: _observed_process(group, one, ends, rest=due_ms is None or not group.ends_known)
        for one in decoded.processes
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
    first = min(processes, key=lambda one: min(member.member_id for member in one.members))
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
    told = {task: number for task, number in process.offset_sums.items() if task in ends}
    if process.report.task_lags is not None:
        told = {task: max(0, ends[task] - lag) for task, lag in told.items()}
    acceptable = group.config.acceptable_recovery_lag
    positions = {}
    for task in sorted({*told, *(process.active & ends.keys()), *(process.copies & ends.keys())}):
        sum_told, end = told.get(task, 0), ends[task]
        near = sum_told == RUNNING_OFFSET_SUM or (0 <= sum_told <= end and is_caught_up(end - sum_told, acceptable))
        ended = task in process.active or (task in process.copies and rest) or near
        positions[task] = end if ended else sum_told
    return ProcessState(tuple(consumers), process.report, positions)
