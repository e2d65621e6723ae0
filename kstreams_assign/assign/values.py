"""The input and the output of an assignor: a cluster, its settings, and a plan.

Frozen values and their validation live here; decisions and bytes do not. A captured group and a hand-written cluster
reach the assignors in this same form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from uuid import UUID

from kstreams_assign.allowed_values import check_values
from kstreams_assign.errors import ConfigError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId

NO_TASKS: frozenset[TaskId] = frozenset()


def common_rack(reported_racks: Iterable[str | None]) -> str | None:
    """Return the rack that all consumers of a process report, or None if they report different racks or none."""
    racks = {rack or None for rack in reported_racks}
    return racks.pop() if len(racks) == 1 else None


@dataclass(frozen=True, slots=True)
class Client:
    """One process (one state directory, one process id) as the leader sees it.

    ``capacity`` counts its threads (members of the group). ``lags`` has an entry in offsets for *every* stateful task
    of the cluster, also for tasks without state on this process (see ``lags.TaskLags``). ``prev_active`` are the tasks
    that it ran, ``prev_standby`` the other tasks whose state it holds (Kafka: ``ClientState``). ``rack``
    (``client.rack``) is None unless all its consumers report the same rack.
    """

    process_id: UUID
    capacity: int = 1
    prev_active: frozenset[TaskId] = NO_TASKS
    prev_standby: frozenset[TaskId] = NO_TASKS
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ConfigError(f"capacity of process {self.process_id} is {self.capacity}; it must be at least 1 thread")


PartitionRacks = Mapping[TaskId, tuple[frozenset[str], ...]]
"""Task -> the racks of the replicas of each partition. A task is missing if the racks of any partition are unknown."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """All processes and all tasks of a group. Only rack-aware strategies read ``source_racks`` and ``changelog_racks``.

    ``loads`` are those of tasks, as far as known, by which active tasks are balanced (``balance_by``); empty: they are
    balanced by number. Only ``least_movement`` reads them.

    Raises ``ConfigError`` for a duplicate process or task, for tasks without any process, and for tasks of named
    topologies mixed with tasks of unnamed topologies.
    """

    clients: tuple[Client, ...]
    stateful: frozenset[TaskId]
    stateless: frozenset[TaskId] = NO_TASKS
    source_racks: PartitionRacks = field(default_factory=dict)
    changelog_racks: PartitionRacks = field(default_factory=dict)
    loads: Mapping[TaskId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [client.process_id for client in self.clients]
        tasks = self.tasks
        if not ids and tasks:
            raise ConfigError("clients is empty; a cluster with tasks needs at least one process")
        if len({task[2] is None for task in tasks}) > 1:
            raise ConfigError("some tasks belong to a named topology and some do not; name all topologies or none")
        if len(set(ids)) < len(ids):
            duplicate = next(process_id for process_id in ids if ids.count(process_id) > 1)
            raise ConfigError(f"clients contains process {duplicate} twice; each process id may occur once")
        if both := self.stateful & self.stateless:
            raise ConfigError(f"task {min(both)} is both stateful and stateless; list it in one of them only")

    @property
    def tasks(self) -> frozenset[TaskId]:
        return self.stateful | self.stateless

    @property
    def capacities(self) -> dict[UUID, int]:
        return {client.process_id: client.capacity for client in self.clients}


@dataclasses.dataclass(frozen=True, slots=True)  # made once, checked, and given by callers: also frozen at run time
class AssignConfig:
    """The settings that decisions depend on, with Kafka's names and defaults. Raises ``ConfigError``."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: str = "none"
    rack_aware_assignment_traffic_cost: int | None = None
    rack_aware_assignment_non_overlap_cost: int | None = None
    scheduled_rebalance_max_delay_ms: int = 60_000
    balance_by: str = "tasks"

    def __post_init__(self) -> None:
        check_values(self, (setting.name for setting in fields(self)))
        tags = self.rack_aware_assignment_tags
        if not isinstance(tags, tuple) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError(f"rack_aware_assignment_tags = {tags!r}: must be a tuple of tag keys")


@dataclass(frozen=True, slots=True)
class Placement:
    """What one process gets. ``standby`` excludes ``warmup``: warm-ups are extra and end once their task has moved."""

    active: frozenset[TaskId] = NO_TASKS
    standby: frozenset[TaskId] = NO_TASKS
    warmup: frozenset[TaskId] = NO_TASKS

    @property
    def copies(self) -> frozenset[TaskId]:
        return self.active | self.standby | self.warmup


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision: a placement for every process, and whether a probing rebalance must follow.

    ``awaited``: what each process that restarts has when it is back (``assign.awaited``). Its active tasks run nowhere
    until then, and its replicas count as if they were there. ``restores``: tasks that no process has caught up with and
    that do not run on the process that has most of their state, each with that process: their restore ends sooner where
    they are.
    """

    placements: Mapping[UUID, Placement]
    probing: bool
    awaited: Mapping[UUID, Placement] = field(default_factory=dict)
    restores: Mapping[TaskId, UUID] = field(default_factory=dict)

    @property
    def owners(self) -> dict[TaskId, UUID]:
        """Return the process that runs each task."""
        return {task: process for process, placed in self.placements.items() for task in placed.active}

    @property
    def waiting(self) -> dict[TaskId, UUID]:
        """Return the tasks that wait for a process that restarts, each with that process."""
        return {task: process for process, placed in self.awaited.items() for task in placed.active}


Assignor = Callable[[Cluster, AssignConfig], Plan]
"""A pure decision. It may raise ``ConfigError`` for a cluster in which a lag is missing, and no other error."""
