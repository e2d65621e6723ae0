"""What a streams group (KIP-1071) waits for, in sentences, and its description as JSON. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kstreams_assign.observe.streams_snapshot import Roles, SeenMember, StreamsSnapshot, StreamsTask, sources
from kstreams_assign.wire import DescribedStreamsMember, StreamsSubtopology

TASKS_SHOWN = 12

UNKNOWN: Mapping[str, str] = {
    "time of the last rebalance": "the description has epochs, and no times",
    "next rebalance": "the broker decides when it assigns; no probing rebalance is planned in this protocol",
    "tasks that a member is giving up": "the description has them only before its heartbeat under a new target",
}
_NO_LAGS = "no member has reported positions in changelogs: brokers take them from Kafka 4.4 on"


def unknown(snapshot: StreamsSnapshot) -> dict[str, str]:
    """Return what this protocol does not report, subject -> sentence."""
    reports = any(member.lags for member in snapshot.members)
    return {**({} if reports or not snapshot.changelogs else {"lags": _NO_LAGS}), **UNKNOWN}


def streams_reasons(snapshot: StreamsSnapshot) -> list[str]:
    """Return what the broker waits for, and what would be silent if a process were lost."""
    names = member_names(snapshot)
    return [
        *_state(snapshot),
        *_topics(snapshot),
        *(sentence for member in snapshot.members for sentence in _member(snapshot, member, names)),
        *_unowned(snapshot),
        *_losses(snapshot),
    ]


def member_names(snapshot: StreamsSnapshot) -> dict[str, str]:
    """Return a name for each member id, as the table has it: its instance id or client id, and its process."""
    return {member.described.member_id: _name(member.described) for member in snapshot.members}


def _name(described: DescribedStreamsMember) -> str:
    name, process = described.instance_id or described.client_id, described.process_id[:8]
    return name if process in name else f"{name} ({process})"


def _state(snapshot: StreamsSnapshot) -> list[str]:
    group = snapshot.group
    if group.group_state == "Empty":
        return ["the group has no members: no process runs its tasks"]
    sentences = []
    if group.group_state == "NotReady":
        sentences.append("the broker assigns no tasks until the topics fit the topology")
    if group.group_epoch > group.assignment_epoch:
        sentences.append(
            f"the broker has yet to compute the assignment of epoch {group.group_epoch}: the target is of epoch "
            f"{group.assignment_epoch}; it does so at a member's heartbeat, after the initial rebalance delay"
        )
    topology = group.topology
    if topology is None:
        sentences.append("no member has brought a topology yet")
    return sentences


def _topics(snapshot: StreamsSnapshot) -> list[str]:
    if "topics" in snapshot.gaps:
        return []
    missing = missing_topics(snapshot)
    sentences = [f"source topic {topic} does not exist: create it" for topic in missing["sources"]]
    sentences += [
        f"internal topic {topic} does not exist: the broker creates it, if it has its source topics"
        for topic in missing["internal"]
    ]
    for log, count, tasks in _misfits(snapshot):
        sentences.append(f"changelog {log} has {count} partitions, but its subtopology has {tasks} tasks")
    return sentences


def missing_topics(snapshot: StreamsSnapshot) -> dict[str, list[str]]:
    """Return the topics of the topology that do not exist: ``sources`` and ``internal``."""
    written = {topic for sub in snapshot.subtopologies for topic in sub.repartition_sink_topics}
    internal = written | {
        topic.name
        for sub in snapshot.subtopologies
        for topic in (*sub.state_changelog_topics, *sub.repartition_source_topics)
    }
    read = {topic for sub in snapshot.subtopologies for topic in sub.source_topics} - internal
    there = snapshot.partition_counts
    return {"sources": sorted(read - there.keys()), "internal": sorted(internal - there.keys())}


def _misfits(snapshot: StreamsSnapshot) -> Iterable[tuple[str, int, int]]:
    for sub in snapshot.subtopologies:
        tasks = sum(task.subtopology_id == sub.subtopology_id for task in snapshot.tasks)
        for log in sub.state_changelog_topics:
            count = snapshot.partition_counts.get(log.name)
            if count is not None and tasks and count != tasks:
                yield log.name, count, tasks


def _member(snapshot: StreamsSnapshot, member: SeenMember, names: Mapping[str, str]) -> list[str]:
    described, group = member.described, snapshot.group
    name = names[described.member_id]
    if member.is_away:
        return [_away(snapshot, member, name), *_awaited_of_others(snapshot, member, names)]
    sentences = []
    for role, tasks in _by_role(member.to_revoke):
        sentences.append(
            f"{name} still has to give up {role} {listed(tasks)}: the broker waits for a heartbeat without them"
        )
    sentences += _awaited(snapshot, member, names)
    if snapshot.is_behind(member) and member.to_revoke.is_empty:
        has = "it has its tasks, and learns" if member.awaited.is_empty else "it learns"
        sentences.append(
            f"{name} is at epoch {described.member_epoch}: {has} of epoch {group.assignment_epoch} with its next "
            "heartbeat, or it is still giving up tasks that the description leaves out"
        )
    if group.topology and described.topology_epoch < group.topology.epoch:
        sentences.append(
            f"{name} runs topology {described.topology_epoch} and the group is at {group.topology.epoch}: it gets no "
            "new tasks; start it with the present topology"
        )
    if described.is_classic:
        sentences.append(f"{name} uses the classic protocol")
    return sentences


def _away(snapshot: StreamsSnapshot, member: SeenMember, name: str) -> str:
    tasks = sorted((*member.owned.active, *_free(snapshot, member)))
    if not tasks:
        return f"{name} is away, and no active task waits for it"
    run = "run" if len(tasks) > 1 else "runs"
    return f"{name} is away and comes back: {listed(tasks)} {run} nowhere until it does, or its session ends"


def _awaited_of_others(snapshot: StreamsSnapshot, member: SeenMember, names: Mapping[str, str]) -> list[str]:
    """Return which members have, or may still have, the active tasks that a member waits for."""
    name = names[member.described.member_id]
    by_owner: dict[str, list[StreamsTask]] = defaultdict(list)
    for task in member.awaited.active:
        if (owner := snapshot.owners.get(task)) is not None:
            by_owner[names[owner.described.member_id]].append(task)
    sentences = [f"{name} waits for {listed(tasks)}, which {owner} has" for owner, tasks in by_owner.items()]
    unowned, revoking = _unowned_of(snapshot, member), _revoking(snapshot, member)
    if unowned and revoking:
        others = listed(names[other.described.member_id] for other in revoking)
        sentences.append(
            f"{name} waits for {listed(unowned)}: no member is described with them, but {others} may still be giving "
            "them up"
        )
    return sentences


def _unowned_of(snapshot: StreamsSnapshot, member: SeenMember) -> list[StreamsTask]:
    return [task for task in member.awaited.active if task not in snapshot.owners]


def _revoking(snapshot: StreamsSnapshot, member: SeenMember) -> list[SeenMember]:
    """Return the other members that may have tasks that the description leaves out."""
    return [other for other in snapshot.members if other is not member and snapshot.is_behind(other)]


def _free(snapshot: StreamsSnapshot, member: SeenMember) -> list[StreamsTask]:
    """Return the active tasks that a member is to own and no other can have."""
    return [] if _revoking(snapshot, member) else _unowned_of(snapshot, member)


def _awaited(snapshot: StreamsSnapshot, member: SeenMember, names: Mapping[str, str]) -> list[str]:
    name = names[member.described.member_id]
    sentences = _awaited_of_others(snapshot, member, names)
    if free := _free(snapshot, member):
        sentences.append(f"{name} gets {listed(free)} with its next heartbeat: no member has them")
    for role, tasks in _by_role(Roles((), member.awaited.standby, member.awaited.warmup)):
        sentences.append(f"{name} gets {role} {listed(tasks)} with its next heartbeat")
    return sentences


def _by_role(roles: Roles) -> list[tuple[str, tuple[StreamsTask, ...]]]:
    named = (("active", roles.active), ("standby", roles.standby), ("warm-up", roles.warmup))
    return [(role, tasks) for role, tasks in named if tasks]


def _unowned(snapshot: StreamsSnapshot) -> list[str]:
    if not snapshot.members:
        return []
    targets = {task for member in snapshot.members for task in member.target.active}
    lost = [task for task in snapshot.tasks if task not in snapshot.owners and task not in targets]
    return [f"no member has or is to get {listed(lost)}"] if lost else []


def restores_if_lost(snapshot: StreamsSnapshot) -> dict[str, tuple[StreamsTask, ...]]:
    """Return per process the active stateful tasks that it runs, without a standby or warm-up in another process.

    A member that is away runs nothing, and takes nothing over.
    """
    copies: dict[StreamsTask, set[str]] = defaultdict(set)
    for process, members in snapshot.processes.items():
        for member in members:
            for task in () if member.is_away else (*member.owned.standby, *member.owned.warmup):
                copies[task].add(process)
    return {
        process: tuple(
            task
            for member in members
            for task in member.owned.active
            if not member.is_away and task in snapshot.changelogs and not copies[task] - {process}
        )
        for process, members in snapshot.processes.items()
    }


def _losses(snapshot: StreamsSnapshot) -> list[str]:
    sentences = []
    for process, tasks in restores_if_lost(snapshot).items():
        if tasks:
            sizes = [snapshot.changelog_sizes.get(task) for task in tasks]
            total = f"{sum(size for size in sizes if size is not None):,}" if None not in sizes else "an unknown number"
            sentences.append(
                f"if process {process[:8]} is lost, {listed(tasks)} {'are' if len(tasks) > 1 else 'is'} silent "
                f"until {total} offsets are read: no other running process has a standby"
            )
    return sentences


def listed(items: Iterable[object]) -> str:
    """Return the first dozen, and how many more."""
    texts = [str(item) for item in items]
    more = len(texts) - TASKS_SHOWN
    return ", ".join(texts[:TASKS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def streams_document(snapshot: StreamsSnapshot) -> dict[str, Any]:
    """Return the group as JSON, in the form of a classic group's; what this protocol does not have is null.

    ``lags`` are null where a member reports no position. Times are wall-clock milliseconds, sizes offsets.
    """
    group = snapshot.group
    return {
        "group": group.group_id,
        "protocol": "streams",
        "state": group.group_state,
        "generation": None,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology_epoch": group.topology.epoch if group.topology else None,
        "leader": None,
        "assignor": group.assignor_name,
        "balanced": None,
        "probing_due_ms": None,
        "next_rebalance_ms": None,
        "assigned_ms": None,
        "taken_ms": snapshot.taken_ms,
        "processes": [_process(snapshot, process, members) for process, members in snapshot.processes.items()],
        "unreadable": {},
        "next_moves": _next_moves(snapshot),
        "restore_if_lost": {name: texts(tasks) for name, tasks in restores_if_lost(snapshot).items()},
        "restore_risk_if_lost": {},
        "topology": [_subtopology(sub) for sub in snapshot.subtopologies],
        "missing_topics": None if "topics" in snapshot.gaps else missing_topics(snapshot),
        "settings": dict(snapshot.settings),
        "changelog_offsets": {str(task): size for task, size in snapshot.changelog_sizes.items()},
        "why": streams_reasons(snapshot),
        "assumed": dict(snapshot.gaps),
        "unknown": unknown(snapshot),
    }


def _next_moves(snapshot: StreamsSnapshot) -> list[dict[str, str | None]]:
    moves = []
    for member in snapshot.members:
        for task in member.awaited.active:
            owner = snapshot.owners.get(task)
            source = owner.described.process_id if owner else None
            if source != member.described.process_id:
                moves.append({"task": str(task), "from": source, "to": member.described.process_id})
    return moves


def _process(snapshot: StreamsSnapshot, process: str, members: tuple[SeenMember, ...]) -> dict[str, Any]:
    endpoints = [member.described.user_endpoint for member in members if member.described.user_endpoint]
    lags = {task: lag for member in members for task, lag in member.lags.items()}
    held = {task for member in members for tasks in _all(member.owned) for task in tasks}
    return {
        "process_id": process,
        "endpoint": str(endpoints[0]) if endpoints else None,
        "ours": None,
        "draining": None,
        "version": None,
        "latest_supported_version": None,
        "tags": dict(members[0].described.client_tags),
        "rack": members[0].described.rack_id,
        "active": texts(task for member in members for task in member.owned.active),
        "standby": texts(task for member in members for task in member.owned.standby),
        "warmup": texts(task for member in members for task in member.owned.warmup),
        "lags": {str(task): lags.get(task) for task in snapshot.changelogs if task in held},
        "members": [
            {
                "member_id": member.described.member_id,
                "client_id": member.described.client_id,
                "client_host": member.described.client_host,
                "instance_id": member.described.instance_id,
                "member_epoch": member.described.member_epoch,
                "topology_epoch": member.described.topology_epoch,
                "is_classic": member.described.is_classic,
                **_role_texts(member.owned),
                "target": _role_texts(member.target),
                "to_revoke": _role_texts(member.to_revoke),
                "awaited": _role_texts(member.awaited),
            }
            for member in members
        ],
    }


def _subtopology(sub: StreamsSubtopology) -> dict[str, Any]:
    return {
        "subtopology": sub.subtopology_id,
        "sources": list(sources(sub)),
        "repartition_sources": [topic.name for topic in sub.repartition_source_topics],
        "repartition_sinks": list(sub.repartition_sink_topics),
        "changelogs": [log.name for log in sub.state_changelog_topics],
    }


def _all(roles: Roles) -> tuple[tuple[StreamsTask, ...], ...]:
    return roles.active, roles.standby, roles.warmup


def _role_texts(roles: Roles) -> dict[str, list[str]]:
    return {"active": texts(roles.active), "standby": texts(roles.standby), "warmup": texts(roles.warmup)}


def texts(tasks: Iterable[StreamsTask]) -> list[str]:
    return [str(task) for task in tasks]
