"""A decision as bytes: AssignmentInfo for every member, with the host maps and our trailer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from kstreams_assign.assign import Loads, Plan
from kstreams_assign.assign.java_order import sorted_tasks, text_order
from kstreams_assign.group.assignor_choice import Choice
from kstreams_assign.group.cooperate import HandedOut
from kstreams_assign.group.size import Trim
from kstreams_assign.group.values import ErrorCode, MemberAssignment
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId, TopicPartition, process_order
from kstreams_assign.wire import AssignmentInfo, AwaitedProcess, GroupTrailer

Partitions = Mapping[TaskId, tuple[TopicPartition, ...]]
HostMap = dict[HostInfo, tuple[TopicPartition, ...]]


def encode_error(view: GroupView, code: ErrorCode) -> MemberAssignment:
    """Return an assignment without tasks that carries the code (``StreamsPartitionAssignor.errorAssignment``)."""
    version = view.dialect.assignment_version(view.version)
    info = AssignmentInfo(version=version, commonly_supported_version=view.supported, error_code=int(code))
    return MemberAssignment((), *view.dialect.write_assignments([info]))


def encode_group(
    view: GroupView,
    plan: Plan,
    handed: HandedOut,
    tasks: Partitions,
    choice: Choice,
    leader: UUID,
    follow_up: bool,
    next_probe_ms: int | None,
    warmups: Mapping[UUID, tuple[TaskId, ...]],
    at_once: Mapping[UUID, int],
    awaited: Mapping[UUID, AwaitedProcess],
    wait_ends_ms: int | None,
    loads: Loads,
    trim: Trim = Trim.NOTHING,
) -> dict[str, MemberAssignment]:
    """Return every readable member's assignment. The probe goes to the leader process's first consumer.

    So does the rebalance at ``wait_ends_ms``, when the first wait for one of the ``awaited`` processes ends.
    ``follow_up``: all members join again at once.
    ``warmups`` are each process's in order, ``at_once`` how many of them it may restore at a time, if limited.
    ``loads`` are those by which tasks were balanced. ``trim`` says what is left out to keep the group's record small
    (``group.size``).
    """
    active_hosts, standby_hosts = _host_maps(view, plan, handed, tasks)
    trailer = GroupTrailer(
        assignor=choice.name,
        assignor_version=choice.version,
        warmups=warmups,
        at_once=at_once,
        draining=tuple(sorted(view.draining, key=process_order)),
        next_probe_ms=next_probe_ms,
        followup=follow_up,
        withheld=tuple(sorted(handed.withheld)),
        owners=dict(sorted(handed.withheld.items())),
        partitions=sum(map(len, tasks.values())),
        awaited=awaited,
        loads=loads,
    )
    shares = _shares(view, trailer, plan, leader, trim)
    due_ms = min((at_ms for at_ms in (next_probe_ms, wait_ends_ms) if at_ms is not None), default=None)
    prober = min((c.member.member_id for c in view.processes.get(leader, ())), key=text_order, default=None)
    partitions = {member: _inputs(handed.active[member], tasks) for member in view.member_ids}
    infos = (
        AssignmentInfo(
            version=view.dialect.assignment_version(view.version),
            commonly_supported_version=view.supported,
            active_tasks=tuple(task for _, task in inputs),
            standby_tasks={task: tasks[task] for task in handed.standby[member]},
            partitions_by_host=active_hosts,
            standby_partitions_by_host={} if trim is Trim.STANDBY_HOSTS else standby_hosts,
            error_code=int(ErrorCode.NONE),
            next_rebalance_ms=_next_rebalance_ms(member, handed, prober, due_ms),
            trailer=shares.get(member),
        )
        for member, inputs in partitions.items()
    )
    written = view.dialect.write_assignments(infos)
    return {
        member: MemberAssignment(tuple(partition for partition, _ in inputs), user_data)
        for (member, inputs), user_data in zip(partitions.items(), written, strict=True)
    }


def _shares(view: GroupView, trailer: GroupTrailer, plan: Plan, leader: UUID, trim: Trim) -> Mapping[str, GroupTrailer]:
    """Return the trailer of each member's assignment: equal trailers are one object."""
    if trim >= Trim.TRAILERS:
        return {}
    if trim is Trim.NOTHING:
        shares = dict.fromkeys(view.processes, trailer)
    else:
        owned = owners_by_process(trailer)
        shares = {
            process: trailer
            if process == leader
            else share(trailer, process, plan.placements[process].active, owned.get(process, {}))
            for process in view.processes
        }
    return {c.member.member_id: shares[process] for process, consumers in view.processes.items() for c in consumers}


def owners_by_process(trailer: GroupTrailer) -> dict[UUID, dict[TaskId, UUID]]:
    """Return each process's part of the trailer's ``owners``, in their order."""
    owned: dict[UUID, dict[TaskId, UUID]] = {}
    for task, owner in trailer.owners.items():
        owned.setdefault(owner, {})[task] = owner
    return owned


def share(
    trailer: GroupTrailer, process: UUID, active: Collection[TaskId], owners: Mapping[TaskId, UUID]
) -> GroupTrailer:
    """Return the trailer without the tasks of other processes. The group's tasks are not walked: it is called for each.

    ``active``: what this process runs, or waits for. ``owners``: its part of the trailer's (``owners_by_process``).
    """
    return replace(
        trailer,
        warmups={process: trailer.warmups[process]} if process in trailer.warmups else {},
        at_once={process: trailer.at_once[process]} if process in trailer.at_once else {},
        withheld=tuple(owners),
        owners=owners,
        loads={task: trailer.loads[task] for task in sorted_tasks(active) if task in trailer.loads},
    )


def _inputs(active: Iterable[TaskId], tasks: Partitions) -> list[tuple[TopicPartition, TaskId]]:
    """Return input partitions with the task of each, in the order in which a follower pairs them."""
    return sorted((partition, task) for task in active for partition in tasks[task])


def _next_rebalance_ms(member: str, handed: HandedOut, prober: str | None, due_ms: int | None) -> int:
    """Return 0 for a member that waits for a withheld task, the next rebalance's time for one member, else "never"."""
    if member in handed.waiting:
        return 0
    if member == prober and due_ms is not None:
        return due_ms
    return NO_PROBE_MS


def _ordered(plan: Plan) -> list[UUID]:
    return sorted(plan.placements, key=process_order)


def _host_maps(view: GroupView, plan: Plan, handed: HandedOut, tasks: Partitions) -> tuple[HostMap, HostMap]:
    """Map each endpoint to the input partitions of its tasks, including endpoints without tasks.

    A member that does not find its own endpoint asks for a rebalance, a Java member on every heartbeat, for ever. So
    every endpoint is named, also where processes share an id (Java names one of theirs): each further endpoint with
    the tasks that its own members get now, the first with all others of the id.
    """
    active: HostMap = {}
    standby: HostMap = {}
    for process in _ordered(plan):
        placement = plan.placements[process]
        rest, rest_of_copies = placement.active, placement.standby | placement.warmup
        hosts = _members_by_host(view.processes[process])
        for host in [*hosts][1:]:
            given = rest.intersection(task for member in hosts[host] for task in handed.active[member])
            copied = rest_of_copies.intersection(task for member in hosts[host] for task in handed.standby[member])
            active[host], standby[host] = _partitions(given, tasks), _partitions(copied, tasks)
            rest, rest_of_copies = rest - given, rest_of_copies - copied
        for host in [*hosts][:1]:
            active[host], standby[host] = _partitions(rest, tasks), _partitions(rest_of_copies, tasks)
    return active, standby


def _members_by_host(consumers: Iterable[Consumer]) -> dict[HostInfo, list[str]]:
    """Return the members of a process by their endpoint, which is the same for all unless processes share an id."""
    members: dict[HostInfo, list[str]] = {}
    for consumer in consumers:
        if (host := consumer.endpoint) is not None:
            members.setdefault(host, []).append(consumer.member.member_id)
    return members


def _partitions(placed: Iterable[TaskId], tasks: Partitions) -> tuple[TopicPartition, ...]:
    return tuple(sorted({partition for task in placed for partition in tasks[task]}))
