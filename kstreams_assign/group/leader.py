"""The leader's side: from every member's subscription to every member's assignment, without any I/O.

It follows Kafka's ``StreamsPartitionAssignor``: ``view.read_group`` decodes, ``lookups`` lists what to ask the broker,
``decide`` assigns. Between the two the shell asks the broker, within one deadline. What it could not learn is
``None``, and then tasks stay with their previous owners, as in Java. Nothing here raises because of what a member
sent: a member that cannot be read gets an error code, and the others keep their tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from hashlib import sha256
from uuid import UUID

from kstreams_assign.assign import (
    AssignConfig,
    Assignor,
    Client,
    Cluster,
    Loads,
    Plan,
    TaskLags,
    common_rack,
    drain_assignor,
    find_previous_tasks,
    owner_changes,
    owner_changes_lower_bound,
)
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR, Choice, choose
from kstreams_assign.group.awaiting import SoonRestored, enter_awaited, read_restarts, wait_ends_in_ms
from kstreams_assign.group.cooperate import HandedOut, hand_out
from kstreams_assign.group.encode import encode_error, encode_group
from kstreams_assign.group.loads import collect_loads, explain_by_number
from kstreams_assign.group.racks import ReplicaRacks, warn_racks_not_followed, with_racks
from kstreams_assign.group.size import RECORD_BYTES_MAX, Trim, fit_record
from kstreams_assign.group.topology_differences import list_topology_differences
from kstreams_assign.group.values import Decision, ErrorCode, LeaderState, MemberAssignment
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    UNKNOWN_OFFSET_SUM,
    TaskId,
    TopicPartition,
    TopologyShape,
    process_order,
)
from kstreams_assign.topology.internal import missing_sources
from kstreams_assign.wire import EARLIEST_PROBEABLE_VERSION, OFFSET_SUMS_VERSION, AwaitedProcess


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a decision needs from the broker: required topics (name -> partitions), end offsets, committed offsets.

    ``committed`` are the partitions of source topics that also are changelogs: their committed offsets count as end
    offsets.
    """

    changelog_topics: Mapping[str, int]
    end_offsets: tuple[TopicPartition, ...]
    committed: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """Everything a decision depends on besides the members. ``end_offsets`` is None if they could not be read.

    ``promised`` are the tasks that the previous round withheld, each with the process that waits for it
    (``Adopted.promised`` of the leader's own last assignment). ``joined_ago_ms``: how long ago the leader has joined,
    in milliseconds. ``loads``: those of its last assignment, for tasks whose process has left. ``record_bytes_max``:
    the largest record that the brokers accept. ``replica_racks``: the racks of each partition's replicas, as far as
    known. ``restored_per_s``: the records a second that the leader has seen a process restore, None if it has not.
    ``own``: an unreleased assignor, under the name ``assignor``; the caller guarantees that all members know it.
    """

    application_id: str
    topology: TopologyShape
    assignor: str
    config: AssignConfig
    leader: UUID
    partition_counts: Mapping[str, int]
    end_offsets: Mapping[TopicPartition, int] | None
    now_ms: int
    promised: Mapping[TaskId, UUID] = field(default_factory=dict)
    joined_ago_ms: int = 0
    restored_per_s: float | None = None
    loads: Loads = field(default_factory=dict)
    warmup_queue: bool = False
    record_bytes_max: int = RECORD_BYTES_MAX
    own: Assignor | None = None
    replica_racks: ReplicaRacks = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """The processes and members of all tasks. ``queued``: warm-ups are restored in an order, a few at a time.

    ``awaited``: processes that restart, and how long the group waits for them. ``follow_up``: another rebalance comes
    at once, because tasks are withheld, or a process leaves for a restart.
    """

    tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
    choice: Choice
    standing: LeaderState
    handed: HandedOut
    queued: bool
    follow_up: bool
    awaited: Mapping[UUID, AwaitedProcess]

    @property
    def inputs(self) -> dict[str, tuple[TopicPartition, ...]]:
        """Return the input partitions that each member gets now, in order."""
        return {
            member: tuple(sorted(partition for task in active for partition in self.tasks[task]))
            for member, active in self.handed.active.items()
        }


def lookups(topology: TopologyShape, application_id: str, partition_counts: Mapping[str, int]) -> Lookups:
    """Return the changelog topics that must exist, and the end offsets that the decision needs (``ChangelogTopics``).

    ``partition_counts`` are those of all sources, including repartition topics (``topology.internal``).
    """
    topics: dict[str, int] = {}
    partitions: list[TopicPartition] = []
    committed: list[TopicPartition] = []
    sources = topology.source_changelogs
    for task in topology.tasks(partition_counts):
        for changelog in topology.changelogs(application_id, task).values():
            if changelog.topic in sources:
                committed.append(changelog)
                continue
            topics[changelog.topic] = max(topics.get(changelog.topic, 0), task.partition + 1)
            partitions.append(changelog)
    return Lookups(topics, tuple(partitions), tuple(committed))


def decide(view: GroupView, question: DecisionInput) -> Decision:
    """Assign every task. Never raises for what members sent; a topology that cannot run answers with an error code."""
    if view.shutdown_requested:
        return refuse_group(view, ErrorCode.SHUTDOWN_REQUESTED, "a member requested a shutdown of the application")
    if missing := missing_sources(question.topology, question.partition_counts):
        text = f"source topics do not exist: {', '.join(missing)}; create them and restart the members"
        return refuse_group(view, ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA, text)
    if view.future and view.version < EARLIEST_PROBEABLE_VERSION:
        text = (
            f"members {', '.join(view.future)} use a newer version of user-data than this leader, and another member "
            f"uses version {view.version}, which cannot negotiate versions; upgrade the oldest members"
        )
        return refuse_group(view, ErrorCode.ASSIGNMENT_ERROR, text)
    return _decision(view, question, place_tasks(view, question))


def place_tasks(view: GroupView, question: DecisionInput) -> Placed:
    """Return the decision before anything is written."""
    tasks = question.topology.tasks(question.partition_counts)
    choice, assign = choose_assignor(
        view, question.assignor, ends_known=question.end_offsets is not None, own=question.own
    )
    cluster = build_cluster(view, question, tasks, javas=choice.name == JAVA_ASSIGNOR or bool(view.foreign))
    if choice.name != JAVA_ASSIGNOR and not view.foreign:
        cluster = _as_promised(cluster, question.promised)
    max_delay_ms = question.config.scheduled_rebalance_max_delay_ms
    restarts = read_restarts(view, max_delay_ms, question.leader, question.joined_ago_ms)
    cluster, assign = restarts.prepare(cluster, question.config.acceptable_recovery_lag), restarts.wrap(assign)
    queued = question.warmup_queue and not view.foreign
    config = replace(question.config, max_warmup_replicas=max(1, len(tasks))) if queued else question.config
    standing = LeaderState(cluster, assign(cluster, config), config, assign, view.endpoints)
    handed = hand_out(view.processes, view.owners, standing.plan, tasks, cluster)
    soon = SoonRestored(question.config.acceptable_recovery_lag, question.restored_per_s)
    awaited = enter_awaited(view, restarts, cluster, standing.plan, soon)
    return Placed(tasks, choice, standing, handed, queued, bool(handed.withheld or restarts.announced), awaited)


def choose_assignor(
    view: GroupView, wanted: str, *, ends_known: bool, own: Assignor | None = None
) -> tuple[Choice, Assignor]:
    """Return the choice for these members, and its assignor, drained where a process is about to leave."""
    if own is not None and ends_known:
        choice, assign = Choice(wanted, 1), own
    else:
        choice = choose(view, wanted, ends_known=ends_known)
        assign = choice.assign
    return choice, drain_assignor(assign, view.draining) if view.draining else assign


def refuse_group(view: GroupView, code: ErrorCode, why: str) -> Decision:
    """Give no member a task. ``why`` is for the leader's log: members receive only the code."""
    members = [*view.member_ids, *view.unreadable]
    answers = {member: encode_error(view, code) for member in members}
    return Decision(answers, assignor="none", kind="refused", error=code, warnings=(why,))


def build_cluster(
    view: GroupView, question: DecisionInput, tasks: Mapping[TaskId, tuple[TopicPartition, ...]], *, javas: bool = False
) -> Cluster:
    """Return the group as the assignor sees it. ``question`` gives topology and end offsets.

    By KIP-441 a task whose stores have no changelog is stateful, and no process has a lag. Java 4.3 treats it as
    stateless, so for Java's decision (``javas``) it is.

    A process that has lost its membership may report that it runs a task until that is closed. If others own the task
    by now, it does not; in a group with Java members it is taken at its word, as by Java.
    """
    stateful = {t for t in tasks if question.topology.stateful(t, javas=javas)}
    task_of = {partition: task for task, partitions in tasks.items() for partition in partitions}
    ends = end_offset_sums(question, stateful)
    owned = {
        process: {task_of[p] for consumer in consumers for p in consumer.member.owned if p in task_of}
        for process, consumers in view.processes.items()
    }
    taken = set[TaskId]() if view.foreign else {task for tasks in owned.values() for task in tasks}
    clients = [
        _client(process, consumers, owned[process], taken, ends) for process, consumers in view.processes.items()
    ]
    loads = collect_loads(view, question.config.balance_by, question.loads, tasks)
    cluster = Cluster(tuple(clients), frozenset(stateful), frozenset(tasks.keys() - stateful), loads=loads)
    if not question.replica_racks:
        return cluster
    changelogs = {task: question.topology.changelogs(question.application_id, task).values() for task in stateful}
    return with_racks(cluster, tasks, changelogs, question.replica_racks)


def _as_promised(cluster: Cluster, promised: Mapping[TaskId, UUID]) -> Cluster:
    """Count a withheld task as run by the process that waits for it.

    Otherwise the follow-up would decide about it again. Java's leader does not do so, and neither may Java's decision,
    nor the fallback in a group with Java members.
    """
    if not promised:
        return cluster
    tasks = cluster.tasks
    waits: dict[UUID, set[TaskId]] = {}
    for task, process in promised.items():
        waits.setdefault(process, set()).add(task)
    clients = tuple(
        replace(client, prev_active=client.prev_active | mine, prev_standby=client.prev_standby - mine)
        for client in cluster.clients
        for mine in (frozenset(waits.get(client.process_id, ())) & tasks,)
    )
    return replace(cluster, clients=clients)


def end_offset_sums(question: DecisionInput, stateful: set[TaskId]) -> dict[TaskId, int]:
    """Return the sum over each task's changelogs; a store without a changelog counts 0 (KIP-441, logging disabled).

    Unknown for all tasks if the look-up failed (``StreamsPartitionAssignor.populateClientStatesMap``).
    """
    if question.end_offsets is None:
        return dict.fromkeys(stateful, UNKNOWN_OFFSET_SUM)
    changelogs = {t: question.topology.changelogs(question.application_id, t).values() for t in stateful}
    return {t: sum(question.end_offsets.get(c, 0) for c in changelogs[t]) for t in stateful}


def _client(
    process: UUID,
    consumers: Sequence[Consumer],
    owned: AbstractSet[TaskId],
    taken: AbstractSet[TaskId],
    ends: Mapping[TaskId, int],
) -> Client:
    """Return one process as the assignor sees it (``ClientState.initializePrevTasks``, ``computeTaskLags``).

    ``owned``: the tasks of which it has input partitions. Of those ``taken`` it runs no others.
    """
    reported = {
        task: number
        for consumer in consumers
        for task, number in consumer.info.reported_tasks.items()
        if number != RUNNING_OFFSET_SUM or task in owned or task not in taken
    }
    reports_lags = consumers[0].info.task_lags is not None
    active, standby = find_previous_tasks(owned, dict.fromkeys(reported, 0) if reports_lags else reported)
    return Client(
        process_id=process,
        capacity=len(consumers),
        prev_active=active,
        prev_standby=standby,
        lags=TaskLags.of_lags(ends, reported) if reports_lags else TaskLags(ends, reported),
        tags=dict(consumers[0].info.client_tags),
        rack=common_rack(consumer.member.rack for consumer in consumers),
    )


def _decision(view: GroupView, question: DecisionInput, placed: Placed) -> Decision:
    tasks, choice, standing, handed = placed.tasks, placed.choice, placed.standing, placed.handed
    cluster, plan = standing.cluster, standing.plan
    warmups = _warmups(cluster, plan)
    at_once = share_out(question.config.max_warmup_replicas, warmups) if placed.queued else {}
    before = find_previous_owners(view, tasks, question.promised)
    after = plan.owners
    changed, adopted = owner_changes(before, after, view.processes.keys())
    # earlier versions have no field for the probe, and report no position that it could wait for
    probing = plan.probing and view.version >= OFFSET_SUMS_VERSION
    next_probe_ms = question.now_ms + question.config.probing_rebalance_interval_ms if probing else None
    left_ms = wait_ends_in_ms(placed.awaited)
    wait_ends_ms = None if left_ms is None else question.now_ms + left_ms
    by_number = explain_by_number(view, question.config.balance_by)

    def encode(trim: Trim) -> dict[str, MemberAssignment]:
        refused = {member: encode_error(view, ErrorCode.ASSIGNMENT_ERROR) for member in view.unreadable}
        given = encode_group(
            view,
            plan,
            handed,
            tasks,
            choice,
            question.leader,
            placed.follow_up,
            next_probe_ms,
            warmups,
            at_once,
            placed.awaited,
            wait_ends_ms,
            cluster.loads,
            trim,
        )
        return {**given, **refused}

    fitted = fit_record(encode, view.joined_bytes, question.record_bytes_max)
    return Decision(
        assignments=fitted.assignments,
        record_bytes=fitted.record_bytes,
        assignor=choice.name,
        assignor_version=choice.version,
        kind="follow_up" if question.promised and not changed and not adopted else "round",
        placements=plan.placements,
        changed={task: (before[task], after[task]) for task in changed},
        adopted=tuple(adopted),
        owner_changes_lower_bound=_lower_bound(before, cluster, tasks.keys(), view.draining),
        withheld=handed.withheld,
        next_probe_ms=next_probe_ms,
        waiting=plan.waiting,
        awaited=placed.awaited,
        wait_ends_ms=wait_ends_ms,
        restored_sooner=plan.restores,
        standing=standing,
        warnings=(
            *_warnings(view),
            *list_topology_differences(view, question.topology, tasks),
            *((choice.warning,) if choice.warning else ()),
            *warn_racks_not_followed(cluster, standing.config, choice.name),
            *((by_number,) if by_number else ()),
            *fitted.warnings,
        ),
    )


def _lower_bound(
    before: Mapping[TaskId, UUID], cluster: Cluster, tasks: Collection[TaskId], draining: Collection[UUID]
) -> int:
    """Return the fewest owner changes that balance among the staying processes; all other tasks have to move."""
    staying = {process: threads for process, threads in cluster.capacities.items() if process not in draining}
    return owner_changes_lower_bound(before, staying, tasks) + sum(process in draining for process in before.values())


def _warmups(cluster: Cluster, plan: Plan) -> dict[UUID, tuple[TaskId, ...]]:
    """Return each process's warm-ups, those with the least to restore first."""
    lags = {client.process_id: client.lags for client in cluster.clients}
    return {
        process: tuple(sorted(plan.placements[process].warmup, key=lambda task: (lags[process][task], task)))
        for process in sorted(lags, key=process_order)
        if plan.placements[process].warmup
    }


def share_out(warmups_max: int, processes: Collection[UUID]) -> dict[UUID, int]:
    """Return how many warm-ups each process may restore at a time: the group's limit in even parts, at least 1."""
    each, over = divmod(warmups_max, max(1, len(processes)))
    return {process: max(1, each + (number < over)) for number, process in enumerate(processes)}


def _warnings(view: GroupView) -> list[str]:
    """Return what an operator should know: unreadable members, damaged trailers, shared ids, different settings."""
    refused = [f"member {member} gets an error and no tasks: {why}" for member, why in view.unreadable.items()]
    trailers = [
        f"member {consumer.member.member_id} counts as a foreign member: {consumer.info.trailer_warning}"
        for consumers in view.processes.values()
        for consumer in consumers
        if consumer.info.trailer_warning
    ]
    return refused + _probing(view) + trailers + _doubles(view) + _claims(view) + _differing(view)


def _differing(view: GroupView) -> list[str]:
    """Warn about Python members whose settings differ where they must not."""
    trailers = {
        consumer.member.member_id: consumer.info.trailer
        for consumers in view.processes.values()
        for consumer in consumers
        if consumer.info.trailer
    }
    warnings = []
    digests = [trailer.settings_digest for trailer in trailers.values() if trailer.settings_digest]
    if len(set(digests)) > 1:
        counts = Counter(digests)
        usual = max(counts, key=lambda digest: (counts[digest], digest))
        others = sorted(member for member, trailer in trailers.items() if trailer.settings_digest not in ("", usual))
        warnings.append(
            f"members run with different assignment settings ({', '.join(others)} differ from the others); "
            "the leader's settings apply; use the same settings in all members"
        )
    weaker = sorted(member for member, trailer in trailers.items() if not trailer.exactly_once)
    if 0 < len(weaker) < len(trailers):
        warnings.append(
            f"{len(weaker)} of {len(trailers)} Python members run at least once, the others exactly once: records that "
            "pass through the former may count twice; set processing_guarantee to exactly_once_v2 in "
            f"{', '.join(weaker)}"
        )
    return warnings


def _probing(view: GroupView) -> list[str]:
    """Warn about members whose versions differ (KIP-268)."""
    newest = view.dialect.latest_version
    newer = [
        f"member {member} speaks version {used}, newer than {newest}: it joins again with version {view.supported}"
        for member, used in view.future.items()
    ]
    if view.supported >= OFFSET_SUMS_VERSION:
        return newer
    older = sorted(
        consumer.member.member_id
        for consumers in view.processes.values()
        for consumer in consumers
        if consumer.info.latest_supported_version < OFFSET_SUMS_VERSION
    )
    silent = (
        f"members of Kafka Streams before 2.6 ({', '.join(older)}): the group speaks version {view.supported}, members "
        "do not report positions, and warm hand-over is off until these are upgraded"
    )
    return [*newer, silent]


def _claims(view: GroupView) -> list[str]:
    """Warn about partitions that several members own; each keeps those that it is assigned (Java warns, too)."""
    claimed = [p for consumers in view.processes.values() for c in consumers for p in c.member.owned]
    if len(set(claimed)) == len(claimed):
        return []
    twice = sorted(partition for partition, times in Counter(claimed).items() if times > 1)
    return [f"owned by more than one member: {', '.join(map(str, twice))}"]


def _doubles(view: GroupView) -> list[str]:
    """Warn about processes that share an id: their endpoints reveal them. Without endpoints they cannot be detected."""
    endpoints = {p: {c.info.user_end_point for c in consumers} - {None, ""} for p, consumers in view.processes.items()}
    return [
        f"process id {process} comes from {' and '.join(sorted(map(str, ends)))}: "
        "the leader treats them as one process; give each process its own process_name or state_dir"
        for process, ends in endpoints.items()
        if len(ends) > 1
    ]


def settings_digest(assignor: str, config: AssignConfig) -> str:
    """Return a digest that is equal for members with equal assignment settings; it goes into each member's trailer.

    ``balance_by`` is in it only where it is set, so that members of earlier releases have the same digest.
    """
    settings = str(config).replace(", balance_by='tasks'", "")
    return sha256(f"{assignor} {settings}".encode()).hexdigest()[:16]


def find_previous_owners(
    view: GroupView, tasks: Mapping[TaskId, tuple[TopicPartition, ...]], promised: Mapping[TaskId, UUID]
) -> dict[TaskId, UUID]:
    """Return each task's process by the previous round: the process it was promised to, else its owner as it joins."""
    process_of = {c.member.member_id: process for process, consumers in view.processes.items() for c in consumers}
    owner = {
        task: process_of[view.owners[partition]]
        for task, partitions in tasks.items()
        for partition in partitions
        if partition in view.owners
    }
    return {**owner, **{t: p for t, p in promised.items() if t in tasks and p in view.processes}}
