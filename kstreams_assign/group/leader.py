"""The leader's side: from every member's subscription to every member's assignment, without any I/O.

Follows Kafka's ``StreamsPartitionAssignor``: ``view.read_group`` decodes, ``lookups`` says what has to be asked of the broker,
``decide`` assigns. The shell asks the broker between the two, within one deadline; what it could not learn is ``None``
and leads to the prior owners keeping their tasks, as in Java. Nothing here raises because of what a member sent: whoever
cannot be read gets an error code and the others keep their tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from uuid import UUID

from kstreams_assign.assign import (
    AssignConfig,
    Assignor,
    Client,
    Cluster,
    Plan,
    TaskLags,
    common_rack,
    drained,
    owner_changes,
    owner_changes_lower_bound,
    previous_tasks,
)
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR, Choice, choose
from kstreams_assign.group.cooperate import hand_out
from kstreams_assign.group.encode import encode_error, encode_group
from kstreams_assign.group.racks import ReplicaRacks, not_followed, with_racks
from kstreams_assign.group.size import RECORD_BYTES_MAX, Trim, fitting
from kstreams_assign.group.topology_differences import list_topology_differences
from kstreams_assign.group.values import Decision, ErrorCode, MemberAssignment, Standing
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId, TopicPartition, TopologyShape, process_order
from kstreams_assign.topology.internal import missing_sources
from kstreams_assign.wire import EARLIEST_PROBEABLE_VERSION, OFFSET_SUMS_VERSION


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a decision needs from the broker: topics that must exist (name -> partitions), end offsets, committed offsets.

    ``committed`` are the partitions of source topics that are changelogs, too: theirs count as end offsets.
    """

    changelog_topics: Mapping[str, int]
    end_offsets: tuple[TopicPartition, ...]
    committed: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a decision depends on beside the members. ``end_offsets`` is None where they could not be had.

    ``promised`` are the tasks withheld by the round before, each with the process that waits for it
    (``Adopted.promised`` of the leader's own last assignment). ``record_bytes_max``: what the brokers take of the group's record.
    ``replica_racks``: where the replicas of a partition are, without those that are not known.
    ``own``: an assignor that is in no release, under the name ``assignor``; who asks answers for it that all members know it.
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
    warmup_queue: bool = False
    record_bytes_max: int = RECORD_BYTES_MAX
    own: Assignor | None = None
    replica_racks: ReplicaRacks = field(default_factory=dict)


def lookups(topology: TopologyShape, application_id: str, partition_counts: Mapping[str, int]) -> Lookups:
    """Which changelog topics must exist, and whose end offsets the decision wants (Kafka: ``ChangelogTopics``).

    ``partition_counts`` are those of all sources, repartition topics too (``topology.internal``).
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


def decide(view: GroupView, question: Question) -> Decision:
    """Assign every task. Never raises for what members sent; a topology that cannot run answers with an error code."""
    if view.shutdown_requested:
        return refuse_group(view, ErrorCode.SHUTDOWN_REQUESTED, "a member asked the whole application to shut down")
    if missing := missing_sources(question.topology, question.partition_counts):
        text = f"source topics that do not exist: {', '.join(missing)}; create them and restart the members"
        return refuse_group(view, ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA, text)
    if view.future and view.version < EARLIEST_PROBEABLE_VERSION:
        text = f"members of the future ({', '.join(view.future)}) and members that cannot wait for them (version {view.version})"
        return refuse_group(view, ErrorCode.ASSIGNMENT_ERROR, text)
    tasks = question.topology.tasks(question.partition_counts)
    choice, assign = choose_assignor(
        view, question.assignor, ends_known=question.end_offsets is not None, own=question.own
    )
    cluster = build_cluster(view, question, tasks, javas=choice.name == JAVA_ASSIGNOR or bool(view.foreign))
    if choice.name != JAVA_ASSIGNOR:
        cluster = _as_promised(cluster, question.promised)
    queued = question.warmup_queue and not view.foreign
    config = replace(question.config, max_warmup_replicas=max(1, len(tasks))) if queued else question.config
    standing = Standing(cluster, assign(cluster, config), config, assign)
    return _decision(view, question, tasks, choice, standing, queued=queued)


def choose_assignor(
    view: GroupView, wanted: str, *, ends_known: bool, own: Assignor | None = None
) -> tuple[Choice, Assignor]:
    """How a round is decided for these members: the choice, and its assignor, drained where somebody is about to leave."""
    if own is not None and ends_known:
        choice, assign = Choice(wanted, 1), own
    else:
        choice = choose(view, wanted, ends_known=ends_known)
        assign = choice.assign
    return choice, drained(assign, view.draining) if view.draining else assign


def refuse_group(view: GroupView, code: ErrorCode, why: str) -> Decision:
    """Nobody gets a task. ``why`` is for the leader's log: the members are told the code alone."""
    everybody = [*view.member_ids, *view.unreadable]
    answers = {member: encode_error(view, code) for member in everybody}
    return Decision(answers, assignor="none", kind="refused", error=code, warnings=(why,))


def build_cluster(
    view: GroupView, question: Question, tasks: Mapping[TaskId, tuple[TopicPartition, ...]], *, javas: bool = False
) -> Cluster:
    """The group as the assignor sees it. ``question`` gives topology and end offsets.

    By KIP-441 a task whose stores have no changelog is stateful, and nobody has a lag. Java 4.3 takes it for stateless, so
    for its decision (``javas``) it is.
    """
    stateful = {t for t in tasks if question.topology.stateful(t, javas=javas)}
    task_of = {partition: task for task, partitions in tasks.items() for partition in partitions}
    ends = end_offset_sums(question, stateful)
    clients = [_client(process, consumers, task_of, ends) for process, consumers in view.processes.items()]
    cluster = Cluster(tuple(clients), frozenset(stateful), frozenset(tasks.keys() - stateful))
    if not question.replica_racks:
        return cluster
    changelogs = {task: question.topology.changelogs(question.application_id, task).values() for task in stateful}
    return with_racks(cluster, tasks, changelogs, question.replica_racks)


def _as_promised(cluster: Cluster, promised: Mapping[TaskId, UUID]) -> Cluster:
    """A withheld task counts as run by the process that waits for it, or the follow-up would decide about it anew.

    Java's leader does not do so, and neither may Java's decision.
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


def end_offset_sums(question: Question, stateful: set[TaskId]) -> dict[TaskId, int]:
    """The sum over a task's changelogs; a store without a changelog counts nothing (KIP-441, logging disabled).

    Unknown for all where the look-up failed (``StreamsPartitionAssignor.populateClientStatesMap``).
    """
    if question.end_offsets is None:
        return dict.fromkeys(stateful, UNKNOWN_OFFSET_SUM)
    changelogs = {t: question.topology.changelogs(question.application_id, t).values() for t in stateful}
    return {t: sum(question.end_offsets.get(c, 0) for c in changelogs[t]) for t in stateful}


def _client(
    process: UUID, consumers: Sequence[Consumer], task_of: Mapping[TopicPartition, TaskId], ends: Mapping[TaskId, int]
) -> Client:
    """One process as the assignor sees it (``ClientState.initializePrevTasks``, ``computeTaskLags``)."""
    told = {task: number for consumer in consumers for task, number in consumer.info.reported_tasks.items()}
    tells_lags = consumers[0].info.task_lags is not None
    owned = {task_of[p] for c in consumers for p in c.member.owned if p in task_of}
    active, standby = previous_tasks(owned, dict.fromkeys(told, 0) if tells_lags else told)
    return Client(
        process_id=process,
        capacity=len(consumers),
        prev_active=active,
        prev_standby=standby,
        lags=TaskLags.of_lags(ends, told) if tells_lags else TaskLags(ends, told),
        tags=dict(consumers[0].info.client_tags),
        rack=common_rack(consumer.member.rack for consumer in consumers),
    )


def _decision(
    view: GroupView,
    question: Question,
    tasks: Mapping[TaskId, tuple[TopicPartition, ...]],
    choice: Choice,
    standing: Standing,
    *,
    queued: bool,
) -> Decision:
    cluster, plan = standing.cluster, standing.plan
    warmups = _warmups(cluster, plan)
    at_once = share_out(question.config.max_warmup_replicas, warmups) if queued else {}
    handed = hand_out(view.processes, view.owners, plan, tasks, cluster)
    before = owners_before(view, tasks, question.promised)
    after = plan.owners
    changed, adopted = owner_changes(before, after, view.processes.keys())
    probing = plan.probing and view.version >= OFFSET_SUMS_VERSION  # before, no field for it, and no position to learn
    next_probe_ms = question.now_ms + question.config.probing_rebalance_interval_ms if probing else None

    def encode(trim: Trim) -> dict[str, MemberAssignment]:
        refused = {member: encode_error(view, ErrorCode.ASSIGNMENT_ERROR) for member in view.unreadable}
        given = encode_group(view, plan, handed, tasks, choice, question.leader, next_probe_ms, warmups, at_once, trim)
        return {**given, **refused}

    fitted = fitting(encode, view.joined_bytes, question.record_bytes_max)
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
        standing=standing,
        warnings=(
            *_warnings(view),
            *list_topology_differences(view, question.topology, tasks),
            *((choice.warning,) if choice.warning else ()),
            *not_followed(cluster, standing.config),
            *fitted.warnings,
        ),
    )


def _lower_bound(
    before: Mapping[TaskId, UUID], cluster: Cluster, tasks: Collection[TaskId], draining: Collection[UUID]
) -> int:
    """The fewest owner changes that balance among those who stay allows; all tasks of the others have to change."""
    staying = {process: threads for process, threads in cluster.capacities.items() if process not in draining}
    return owner_changes_lower_bound(before, staying, tasks) + sum(process in draining for process in before.values())


def _warmups(cluster: Cluster, plan: Plan) -> dict[UUID, tuple[TaskId, ...]]:
    """Each process's warm-ups, those with the least to restore first."""
    lags = {client.process_id: client.lags for client in cluster.clients}
    return {
        process: tuple(sorted(plan.placements[process].warmup, key=lambda task: (lags[process][task], task)))
        for process in sorted(lags, key=process_order)
        if plan.placements[process].warmup
    }


def share_out(warmups_max: int, processes: Collection[UUID]) -> dict[UUID, int]:
    """How many warm-ups each of these may restore at a time: the group's limit in even parts, and one at least."""
    each, over = divmod(warmups_max, max(1, len(processes)))
    return {process: max(1, each + (number < over)) for number, process in enumerate(processes)}


def _warnings(view: GroupView) -> list[str]:
    """What an operator should know: members that cannot be read, damaged trailers, shared ids, settings that differ."""
    refused = [f"member {member} gets an error: {why}" for member, why in view.unreadable.items()]
    trailers = [
        f"member {consumer.member.member_id}: {consumer.info.trailer_warning}"
        for consumers in view.processes.values()
        for consumer in consumers
        if consumer.info.trailer_warning
    ]
    return refused + _probing(view) + trailers + _doubles(view) + _claims(view) + _differing(view)


def _differing(view: GroupView) -> list[str]:
    """Members of ours whose settings differ where they should not."""
    told = [
        (consumer.member.member_id, consumer.info.trailer)
        for consumers in view.processes.values()
        for consumer in consumers
        if consumer.info.trailer
    ]
    digests = {trailer.settings_digest for _, trailer in told if trailer.settings_digest}
    found = ["members run with different assignment settings; the leader's count"] if len(digests) > 1 else []
    weaker = sorted(member for member, trailer in told if not trailer.exactly_once)
    if 0 < len(weaker) < len(told):
        those = f"{len(weaker)} of {len(told)} members of ours run at least once, the others exactly once"
        found.append(
            f"{those}: what passes through the former may count twice; processing_guarantee of {', '.join(weaker)}"
        )
    return found


def _probing(view: GroupView) -> list[str]:
    """Members whose versions differ (KIP-268)."""
    newest = view.dialect.latest_version
    newer = [
        f"member {member} speaks version {used}, newer than {newest}: it joins again in version {view.supported}"
        for member, used in view.future.items()
    ]
    if view.supported >= OFFSET_SUMS_VERSION:
        return newer
    silent = f"the group speaks version {view.supported}, as a member of Kafka Streams before 2.6 is in it: nobody can tell how far"
    return [*newer, f"{silent} copies are, so nothing is handed over warm until that member is upgraded"]


def _claims(view: GroupView) -> list[str]:
    """Partitions that more than one member says it owns; each of them keeps what it gets of these (Java warns, too)."""
    claimed = Counter(p for consumers in view.processes.values() for c in consumers for p in c.member.owned)
    twice = sorted(partition for partition, times in claimed.items() if times > 1)
    return [f"owned by more than one member: {', '.join(map(str, twice))}"] if twice else []


def _doubles(view: GroupView) -> list[str]:
    """Processes that share an id: shown by their endpoints, as a process has one. Without endpoints it does not show."""
    told = {p: {c.info.user_end_point for c in consumers} - {None, ""} for p, consumers in view.processes.items()}
    return [
        f"process id {process} comes from {' and '.join(sorted(map(str, ends)))}: they are taken for one process; give each a "
        "process_name, or a state_dir, of its own"
        for process, ends in told.items()
        if len(ends) > 1
    ]


def settings_digest(assignor: str, config: AssignConfig) -> str:
    """Equal for members whose assignment settings are equal; goes into each member's trailer."""
    return sha256(f"{assignor} {config}".encode()).hexdigest()[:16]


def owners_before(
    view: GroupView, tasks: Mapping[TaskId, tuple[TopicPartition, ...]], promised: Mapping[TaskId, UUID]
) -> dict[TaskId, UUID]:
    """Who had each task by the round before: the process it was promised to, else its owner as it joins."""
    process_of = {c.member.member_id: process for process, consumers in view.processes.items() for c in consumers}
    owner = {
        task: process_of[view.owners[partition]]
        for task, partitions in tasks.items()
        for partition in partitions
        if partition in view.owners
    }
    return {**owner, **{t: p for t, p in promised.items() if t in tasks and p in view.processes}}
