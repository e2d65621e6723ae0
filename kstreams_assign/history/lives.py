"""Lives that groups are played through: processes come and go, topics grow, probes fall due, chance decides by a seed.

What lives here: kinds of groups and what happens to them. What must not: how a group rebalances (``played``), and the
names and records under which a life is written (``generate``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.history.played import FleetGroup, PlayedCommit, PlayedGeneration, PlayedProcess
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import AssignmentInfo, decode_assignment

STARTED_MS = 1_767_225_600_000
"""2026-01-01, when the first generation of every life is completed."""

ZONES = ("a", "b", "c")

Inputs = Mapping[TaskId, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a played life is like: ``ours`` or all Java, settings, threads a process, and who reports an endpoint.

    ``quiet_ms``: the range of times without a change. ``probed``: the chance that a due probe comes before the next
    change. ``restored_per_s``: offsets a second that a replica reads. ``members_max``: fewer than others may have.
    """

    ours: bool = True
    standbys: int = 0
    threads: int = 1
    endpoints: bool = False
    tags: bool = False
    warmups: int = 2
    quiet_ms: tuple[int, int] = (300_000, 500_000)
    probed: float = 0.8
    restored_per_s: int = 10_000
    members_max: int | None = None


AN_HOUR_MS = 3_600_000

STORM = Kind(threads=2, quiet_ms=(200, 4_000), probed=0.0)
"""Processes come, crash and return within seconds; no rebalance has an effect for long."""

SLOW = Kind(ours=False, standbys=1, quiet_ms=(6 * AN_HOUR_MS, 72 * AN_HOUR_MS), probed=1.0, restored_per_s=20)
"""A change every few days, and replicas that need most of an hour: probe after probe."""

KINDS = (
    Kind(standbys=1, threads=2, tags=True),
    Kind(ours=False, standbys=1, threads=4),
    Kind(warmups=8),
    Kind(ours=False, threads=2, warmups=4),
    Kind(standbys=1, threads=4, endpoints=True),
    Kind(ours=False, threads=1, endpoints=True),
    STORM,
    replace(STORM, ours=False),
    SLOW,
    replace(SLOW, ours=True),
)


@dataclass(frozen=True)
class Life:
    """What happened in a group, in the order of time."""

    kind: Kind
    events: Sequence[PlayedGeneration | PlayedCommit]

    @cached_property
    def answers(self) -> Mapping[int, tuple[AssignmentInfo, ...]]:
        """Generation -> what its members were answered, decoded once for all names; one map of hosts for all."""
        return {
            event.generation: _sharing(decode_assignment(member.answer.user_data) for member in event.members)
            for event in self.events
            if isinstance(event, PlayedGeneration)
        }


def _sharing(infos: Iterator[AssignmentInfo]) -> tuple[AssignmentInfo, ...]:
    listed = list(infos)
    return tuple(
        replace(
            info,
            partitions_by_host=dict(listed[0].partitions_by_host),
            standby_partitions_by_host=dict(listed[0].standby_partitions_by_host),
            trailer=listed[0].trailer,
        )
        for info in listed
    )


def play(kind: Kind, members: int, generations: int, seed: int) -> Life:
    """One life with up to ``members`` members, of ``generations`` generations; the same for the same seed."""
    chance = Random(seed)  # noqa: S311 - a seed, not a secret
    members = min(members, kind.members_max or members)
    group = _group(kind, members)
    for _ in range(max(1, members * 9 // 10 // kind.threads)):
        _start(group, kind, chance)
    events: list[PlayedGeneration | PlayedCommit] = []
    last: dict[TaskId, UUID] = {}
    let_go: set[TaskId] = set()
    while group.generation < generations:
        before, commits = group.owners(), group.commits()
        completed = group.rebalance()
        owners, inputs = group.owners(), group.topology.tasks(group.counts)
        moved = [task for task, owner in owners.items() if last.get(task, owner) != owner]
        orphans = [task for task in moved if task not in before and task not in let_go]
        events += [commit for commit in commits if chance.random() < COMMITTED]
        events += _commits(group.now_ms - 1, orphans, inputs)
        events.append(completed)
        group.wait(chance.randint(50, 400), kind.restored_per_s)
        let_go = before.keys() - owners.keys()  # before the follow-up
        events += _commits(group.now_ms, let_go, inputs)
        events += _commits(group.now_ms, moved, inputs)
        last.update(owners)
        _next_event(group, kind, members, chance)
    return Life(kind, tuple(events))


def _commits(time_ms: int, tasks: Iterable[TaskId], inputs: Inputs) -> list[PlayedCommit]:
    return [PlayedCommit(time_ms, partition) for task in sorted(tasks) for partition in inputs[task]]


COMMITTED = 0.05
"""Of the partitions that stay where they are, before each generation."""


def _group(kind: Kind, members: int) -> FleetGroup:
    topology = TopologyShape((SubtopologyShape(("orders",), (Store("totals"),)), SubtopologyShape(("clicks",))))
    config = AssignConfig(num_standby_replicas=kind.standbys, max_warmup_replicas=kind.warmups)
    assignor = "least_movement" if kind.ours else "high_availability"
    counts = {"orders": members, "clicks": members}
    return FleetGroup("app", topology, counts, config, assignor, now_ms=STARTED_MS)


def _start(group: FleetGroup, kind: Kind, chance: Random) -> PlayedProcess:
    process = UUID(int=chance.getrandbits(128))
    endpoint = f"{process}.example.org:8080" if kind.endpoints else None
    tags = {"zone": chance.choice(ZONES)} if kind.tags else {}
    return group.start(process, kind.threads, endpoint=endpoint, tags=tags, ours=kind.ours)


def _next_event(group: FleetGroup, kind: Kind, members: int, chance: Random) -> None:
    """What leads to the next generation: the follow-up of this one, its probe, or a change in the group."""
    if group.withheld:
        group.wait(chance.randint(100, 1_000), kind.restored_per_s)
    elif group.probe_ms is not None and chance.random() < kind.probed:
        group.wait(max(0, group.probe_ms - group.now_ms) + chance.randint(100, 3_000), kind.restored_per_s)
    else:
        group.wait(chance.randint(*kind.quiet_ms), kind.restored_per_s)
        _change(group, kind, members, chance)


def _change(group: FleetGroup, kind: Kind, members: int, chance: Random) -> None:
    """Processes join, leave, are replaced or restarted, or an input topic grows."""
    there = sorted(group.processes)
    room = members // kind.threads - len(there)
    what = chance.choices(("join", "leave", "replace", "restart", "grow"), (5, 3, 1, 1, 1))[0]
    if what == "grow":
        group.counts["clicks"] += 1
    if what in {"leave", "replace"} and len(there) > 1:
        group.stop(chance.choice(there))
    if what in {"join", "replace"} and room > 0:
        _start(group, kind, chance)
    if what == "restart" or (what == "join" and room <= 0):
        process = group.processes[chance.choice(there)]
        group.start(process.process, kind.threads)
