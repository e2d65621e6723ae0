"""A follower's reading of its assignment: the tasks that it has now, and when a rebalance is due.

Kafka: ``StreamsPartitionAssignor.onAssignment``. The topology is checked here, at the first assignment, because
members that number subtopologies differently would silently mix up state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from kstreams_assign.config import read_endpoint
from kstreams_assign.errors import AssignmentRefused, MalformedUserData, ShutdownRequested, TopologyMismatch
from kstreams_assign.group.dialects import APACHE, Dialect
from kstreams_assign.group.values import Adopted, ErrorCode, WarmupQueue
from kstreams_assign.group.versions import version_after
from kstreams_assign.model import HostInfo, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.topology.internal import missing_sources
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION, AssignmentInfo

_REMEDY: Mapping[int, str] = {
    ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA: (
        "a source topic does not exist; the leader's log names it. Create the topic and restart the members"
    ),
    ErrorCode.ASSIGNMENT_ERROR: (
        f"the group's leader could not assign tasks (error code {ErrorCode.ASSIGNMENT_ERROR:d}); its log says why"
    ),
    ErrorCode.SHUTDOWN_REQUESTED: "a member requested a shutdown of the whole application; its log says why",
}


def read_assignment(
    partitions: Sequence[TopicPartition],
    user_data: bytes,
    topology: TopologyShape,
    process: UUID,
    endpoint: HostInfo | None = None,
    dialect: Dialect = APACHE,
    *,
    leads: bool = False,
    used_version: int | None = None,
    partition_counts: Mapping[str, int] | None = None,
) -> Adopted:
    """Decode this member's assignment.

    ``leads``: this member made the assignment itself, so it asks for the probe where the dialect names no member.
    ``used_version``: the version that it joined with, by default its newest. ``partition_counts``: of the source
    topics, as far as this member knows; they tell which topic is missing. Raises ``MalformedUserData`` for invalid
    bytes, ``AssignmentRefused`` for an error code (``ShutdownRequested`` for that code) or impossible versions, and
    ``TopologyMismatch`` where a task's partitions differ from this topology.
    """
    info = dialect.read_assignment(user_data)
    if info.error_code == ErrorCode.SHUTDOWN_REQUESTED:
        raise ShutdownRequested(_REMEDY[ErrorCode.SHUTDOWN_REQUESTED])
    if info.error_code != ErrorCode.NONE:
        raise AssignmentRefused(
            _missing_topics(info.error_code, topology, partition_counts)
            or _REMEDY.get(info.error_code)
            or f"the group's leader sent error code {info.error_code} instead of tasks; its log says why"
        )
    used = used_version or dialect.latest_version
    version = version_after(used, dialect.latest_version, info) if dialect.probes_versions else used
    active = active_tasks(partitions, info)
    _check_topology(active, info.standby_tasks, topology)
    given = build_adopted(active, info, process, endpoint, version)
    if dialect.tells_probe or not leads or given.next_probe_ms is None or given.next_rebalance_ms == 0:
        return given
    return replace(given, next_rebalance_ms=given.next_probe_ms)


def active_tasks(
    partitions: Sequence[TopicPartition], info: AssignmentInfo
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return each active task with its partitions: the n-th task belongs to the n-th partition in sorted order.

    Raises ``MalformedUserData`` if the numbers differ (``validateActiveTaskEncoding``).
    """
    if len(partitions) != len(info.active_tasks):
        raise MalformedUserData(
            f"AssignmentInfo names {len(info.active_tasks)} active tasks for {len(partitions)} partitions"
        )
    active: dict[TaskId, list[TopicPartition]] = {}
    for partition, task in zip(sorted(partitions), info.active_tasks, strict=True):
        active.setdefault(task, []).append(partition)
    return {task: tuple(owned) for task, owned in active.items()}


def _missing_topics(error_code: int, topology: TopologyShape, counts: Mapping[str, int] | None) -> str | None:
    """Return the source topics that do not exist, as far as this member knows; None for another error code."""
    if error_code != ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA or counts is None:
        return None
    missing = ", ".join(missing_sources(topology, counts))
    return f"source topics do not exist: {missing}; create them and restart the members" if missing else None


def _check_topology(
    active: Mapping[TaskId, Sequence[TopicPartition]],
    standby: Mapping[TaskId, Sequence[TopicPartition]],
    topology: TopologyShape,
) -> None:
    for task, partitions in (*active.items(), *standby.items()):
        known = 0 <= task.subtopology < len(topology.subtopologies) and task.topology is None
        sub = topology.subtopologies[task.subtopology] if known else SubtopologyShape(())
        strange = [p for p in partitions if not sub.reads(p.topic) or p.partition != task.partition]
        lacking = _lacking(task, {p.topic for p in partitions}, sub)
        if not known or strange or lacking:
            said = ", ".join(map(str, strange or partitions))
            without = f" but not those of {', '.join(lacking)}" if lacking and not strange else ""
            raise TopologyMismatch(
                f"the leader gives task {task} the partitions {said}{without}, but this member's subtopology "
                f"{task.subtopology} reads {_describe_sources(sub)}; run the same topology in all members"
            )


def _describe_sources(sub: SubtopologyShape) -> str:
    patterns = [] if sub.pattern is None else [f"topics that match {sub.pattern}"]
    return ", ".join([*sub.sources, *patterns]) or "nothing"


def _lacking(task: TaskId, given: AbstractSet[str], sub: SubtopologyShape) -> list[str]:
    """Return sources of which this task must have a partition.

    The first task needs all of them, as every topic has a partition 0; each task needs the copartitioned ones.
    """
    if task.partition and not sub.copartition:
        return []
    first = set(sub.sources) if task.partition == 0 else set()
    joined = {topic for group in sub.copartition if not given.isdisjoint(group) for topic in group}
    return sorted((first | joined).difference(given))


def _is_named(hosts: Collection[HostInfo], endpoint: HostInfo) -> bool:
    """Return whether the host map names the endpoint. Leaders of earlier releases keep brackets and the scheme."""
    return endpoint in hosts or any(read_endpoint(f"{host.host}:{host.port}") == endpoint for host in hosts)


def build_adopted(
    active: Mapping[TaskId, tuple[TopicPartition, ...]],
    info: AssignmentInfo,
    process: UUID,
    endpoint: HostInfo | None = None,
    version: int = LATEST_SUPPORTED_VERSION,
) -> Adopted:
    """Return what an assignment gives to a member of this process; the topology is not checked."""
    trailer = info.trailer
    order = trailer.warmups.get(process, ()) if trailer else ()
    warmup = frozenset(order) & info.standby_tasks.keys()
    at_once = trailer.at_once.get(process) if trailer else None
    known_host = endpoint is None or not info.partitions_by_host or _is_named(info.partitions_by_host, endpoint)
    return Adopted(
        active=active,
        standby=frozenset(info.standby_tasks) - warmup,
        warmup=warmup,
        next_rebalance_ms=info.next_rebalance_ms if known_host else 0,
        next_probe_ms=trailer.next_probe_ms if trailer else None,
        follow_up=trailer.followup if trailer else False,
        promised=trailer.owners if trailer else {},
        assignor=trailer.assignor if trailer else None,
        warnings=(info.trailer_warning,) if info.trailer_warning else (),
        draining=process in trailer.draining if trailer else False,
        others_drain=any(each != process for each in trailer.draining) if trailer else False,
        queue=WarmupQueue(order, at_once) if at_once and at_once > 0 else None,
        hosts=info.partitions_by_host,
        standby_hosts=info.standby_partitions_by_host,
        warmups=trailer.warmups if trailer else {},
        version=version,
        source_partitions=trailer.partitions if trailer else None,
        awaited=trailer.awaited if trailer else {},
        loads=trailer.loads if trailer else {},
    )
