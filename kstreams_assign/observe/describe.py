"""Judge an observed group: whether it is balanced, what it waits for, what comes next, what a loss would cost.

What lives here: facts as values (``Description``), computed by the real assignor and the real balance conditions. What
must not: the sentences about them (``reasons``) and their JSON (``document``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.assign import (
    Plan,
    is_instance_balanced,
    is_load_balanced,
    is_subtopology_balanced,
    owner_changes,
    sum_loads,
)
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.lags import CopyLag, copy_lags
from kstreams_assign.observe.pauses import paused_tasks
from kstreams_assign.observe.snapshot import STABLE


@dataclass(frozen=True, slots=True)
class Move:
    """A task that changes its process; ``source`` is None for a task that no process runs."""

    task: TaskId
    source: UUID | None
    target: UUID


@dataclass(frozen=True, slots=True)
class Racks:
    """One client tag: which tasks with standbys have all replicas under one value of it."""

    tag: str
    values: tuple[str, ...]
    spread: int
    together: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """All judgements of one moment.

    ``balanced_instances`` and ``balanced_subtopologies`` are KIP-441's two conditions. ``waiting``: warm-ups with their
    lag; if the leader does not report warm-ups apart from standbys, the replicas that a move waits for. ``next_moves``:
    what a rebalance would move once all replicas that can catch up have done so; ``next_standbys``: the warm-ups, each
    with its process, that it would keep as standbys; ``will_probe``: whether it would ask for another probe.
    ``restores``: per process its stateful tasks without a replica elsewhere; ``risks``: those whose replicas were all
    behind at the last join. ``unowned``: tasks without a process. ``paused``: tasks with the time of their pause.
    ``restored_sooner``: tasks that the last decision lets a process restore, ``target``, although another one,
    ``source``, had more of their state. ``loads``: of each process where the group balances by load; then
    ``balanced_instances`` says whether it is left alone by that, and the other condition does not count.
    """

    group: ObservedGroup
    lags: Mapping[tuple[UUID, TaskId], CopyLag]
    balanced_instances: bool
    balanced_subtopologies: bool
    waiting: tuple[CopyLag, ...]
    next_moves: tuple[Move, ...]
    next_standbys: tuple[tuple[TaskId, UUID], ...]
    will_probe: bool
    restores: Mapping[UUID, tuple[TaskId, ...]]
    risks: Mapping[UUID, tuple[TaskId, ...]]
    unowned: tuple[TaskId, ...]
    racks: tuple[Racks, ...]
    paused: Mapping[TaskId, int] = field(default_factory=dict)
    restored_sooner: tuple[Move, ...] = ()
    loads: Mapping[UUID, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """The last rebalance has ended, both conditions hold, or the one by load, and every task has an owner."""
        spread = self.balanced_subtopologies or bool(self.loads)
        return self.at_rest and self.balanced_instances and spread and not self.unowned

    @property
    def at_rest(self) -> bool:
        """Whether no rebalance is under way, no follow-up is due, and no task waits for its old owner."""
        decoded = self.group.decoded
        return decoded.snapshot.state == STABLE and not decoded.promised and decoded.next_rebalance_ms != 0

    @property
    def probing(self) -> bool:
        """Whether a member will ask for a rebalance."""
        return self.group.decoded.next_rebalance_ms is not None


def describe(group: ObservedGroup) -> Description:
    """Judge the group as it is. A group without readable members gets empty judgements."""
    lags = copy_lags(group)
    if not group.decoded.processes:
        return Description(group, lags, True, True, (), (), (), False, {}, {}, tuple(sorted(group.tasks)), ())
    closing = {
        key for key, copy in lags.items() if not copy.stuck and copy.reported != UNKNOWN_OFFSET_SUM
    } & group.copies
    next_join = group.cluster_at_next_join(closing)
    later = group.assignor(next_join, group.config)
    next_moves = _moves(group, later)
    restores, risks = _exposed(group, lags)
    owners = group.owners
    drained = group.decoded.view.draining - set(owners.values())  # they have no tasks left
    capacities = {
        process.process_id: len(process.members)
        for process in group.decoded.processes
        if process.process_id not in drained
    }
    return Description(
        group=group,
        lags=lags,
        balanced_instances=is_load_balanced(owners, capacities, next_join.loads)
        if next_join.loads
        else is_instance_balanced(owners, capacities),
        balanced_subtopologies=is_subtopology_balanced(owners),
        waiting=_waiting(group, lags, next_moves),
        next_moves=next_moves,
        next_standbys=tuple(
            sorted(
                (task, p)
                for p, task in _warmups(group)
                if p in later.placements and task in later.placements[p].standby
            )
        ),
        will_probe=later.probing,
        restores=restores,
        risks=risks,
        unowned=tuple(sorted(group.tasks.keys() - owners.keys())),
        racks=_racks(group),
        paused=paused_tasks(group.decoded),
        restored_sooner=_restored_sooner(group),
        loads=sum_loads(owners, capacities, next_join.loads) if next_join.loads else {},
    )


def _moves(group: ObservedGroup, plan: Plan) -> tuple[Move, ...]:
    before, after = group.owners, plan.owners
    changed, adopted = owner_changes(before, after, group.decoded.view.processes.keys())
    return tuple(Move(task, before.get(task), after[task]) for task in sorted([*changed, *adopted]))


def _restored_sooner(group: ObservedGroup) -> tuple[Move, ...]:
    """Repeat the last decision, which reports these tasks to its leader alone; keep those that still hold."""
    if not group.ends_known or group.decoded.trailer is None:
        return ()
    plan, owners = group.assignor(group.cluster_at_last_join(), group.config), group.owners
    decided = plan.owners
    return tuple(
        Move(task, most, decided[task])
        for task, most in sorted(plan.restores.items())
        if owners.get(task) == decided[task]
    )


def _warmups(group: ObservedGroup) -> set[tuple[UUID, TaskId]]:
    """Return every warm-up with its process, if the leader reports warm-ups apart from standbys."""
    return {(process.process_id, task) for process in group.decoded.processes for task in process.warmup or ()}


def _waiting(
    group: ObservedGroup, lags: Mapping[tuple[UUID, TaskId], CopyLag], moves: tuple[Move, ...]
) -> tuple[CopyLag, ...]:
    targets = {(move.target, move.task) for move in moves}
    warmups = _warmups(group)
    stuck = {key for key, copy in lags.items() if copy.stuck} & group.copies
    awaited = warmups if group.decoded.trailer else (targets & group.copies) | stuck
    return tuple(lags[key] for key in sorted(awaited & lags.keys(), key=lambda key: (key[1], str(key[0]))))


def _exposed(
    group: ObservedGroup, lags: Mapping[tuple[UUID, TaskId], CopyLag]
) -> tuple[dict[UUID, tuple[TaskId, ...]], dict[UUID, tuple[TaskId, ...]]]:
    """Return per process its stateful tasks without a replica elsewhere, and those whose replicas were all behind."""
    process_ids = [process.process_id for process in group.decoded.processes]
    bare: dict[UUID, list[TaskId]] = {process: [] for process in process_ids}
    behind: dict[UUID, list[TaskId]] = {process: [] for process in process_ids}
    for task, owner in sorted(group.owners.items()):
        if task not in group.stateful or owner not in bare:
            continue
        elsewhere = [lags[other, task] for other in process_ids if other != owner and (other, task) in lags]
        if not any(copy.ready for copy in elsewhere):
            copied = any((copy.process, task) in group.copies for copy in elsewhere)
            (behind if copied else bare)[owner].append(task)
    return {p: tuple(tasks) for p, tasks in bare.items()}, {p: tuple(tasks) for p, tasks in behind.items()}


def _racks(group: ObservedGroup) -> tuple[Racks, ...]:
    tags = {process.process_id: process.report.client_tags for process in group.decoded.processes}
    holders: dict[TaskId, list[UUID]] = {}
    for process in group.decoded.processes:
        for task in (process.active | process.standby) & group.stateful:
            holders.setdefault(task, []).append(process.process_id)
    copied = {task: there for task, there in holders.items() if len(there) > 1}
    racks = []
    for tag in sorted({tag for process_tags in tags.values() for tag in process_tags}):
        values = {process: process_tags.get(tag, "") for process, process_tags in tags.items()}
        together = tuple(sorted(t for t, there in copied.items() if len({values[holder] for holder in there}) == 1))
        racks.append(Racks(tag, tuple(sorted(set(values.values()))), len(copied) - len(together), together))
    return tuple(racks)
