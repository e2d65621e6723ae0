"""Traffic between racks as a cost, and when that can be told (KIP-925; Kafka: ``RackAwareTaskAssignor``).

A task costs the traffic cost for each of its partitions that has no replica in the rack of the process. What must not live
here: which flow follows from it (``rack_flow``), or when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kstreams_assign.assign.values import AssignConfig, Client, Cluster, PartitionRacks, Plan
from kstreams_assign.model import TaskId


class Costs(NamedTuple):
    """What a partition without a replica in the rack costs, and what a task costs that is not where it was."""

    traffic: int
    away: int


STATELESS_COSTS = Costs(1, 0)
"""Kafka: ``STATELESS_TRAFFIC_COST`` and ``STATELESS_NON_OVERLAP_COST``, whatever is set."""


def costs(config: AssignConfig, default: Costs) -> Costs:
    """The settings, or the assignor's own default."""
    traffic, away = config.rack_aware_assignment_traffic_cost, config.rack_aware_assignment_non_overlap_cost
    return Costs(default.traffic if traffic is None else traffic, default.away if away is None else away)


def why_not_rack_aware(cluster: Cluster, config: AssignConfig) -> str | None:
    """What is missing for a decision that looks at racks; ``none`` where that was not asked for; None if nothing is.

    ``RackAwareTaskAssignor.canEnableRackAwareAssignor``: each process tells one rack, each source partition's replicas have
    racks, and with standbys those of changelogs have, too.
    """
    if config.rack_aware_assignment_strategy == "none":
        return "none"
    for client in cluster.clients:
        if client.rack is None:
            return f"process {client.process_id} does not tell one rack (client.rack) for all its consumers"
    if missing := cluster.tasks - cluster.source_racks.keys():
        return f"replicas of the source partitions of {min(missing)} are on brokers without broker.rack, or unknown"
    if config.num_standby_replicas and (missing := cluster.stateful - cluster.changelog_racks.keys()):
        return f"replicas of the changelog partitions of {min(missing)} are on brokers without broker.rack, or unknown"
    return None


class RackCosts:
    """Costs by number: ``rack`` per client, ``row`` per task with what it costs in each of these racks."""

    def __init__(self, clients: Sequence[Client], traffic: int) -> None:
        self.names = sorted({client.rack for client in clients if client.rack is not None})
        number = {name: each for each, name in enumerate(self.names)}
        self.rack = [number[client.rack or ""] for client in clients]
        self.traffic = traffic
        self._rows: dict[tuple[frozenset[str], ...], list[int]] = {}

    def row(self, partitions: tuple[frozenset[str], ...]) -> list[int]:
        """The cost in each rack of a task with these partitions; equal ones share a list."""
        if partitions not in self._rows:
            self._rows[partitions] = [
                self.traffic * sum(name not in racks for racks in partitions) for name in self.names
            ]
        return self._rows[partitions]

    def rows(self, tasks: Sequence[TaskId], told: PartitionRacks) -> list[list[int]]:
        return [self.row(told.get(task, ())) for task in tasks]


def cross_rack_partitions(cluster: Cluster, plan: Plan) -> tuple[int, int]:
    """How many source partitions active tasks read from other racks, and how many changelog partitions copies do."""
    rack_of = {client.process_id: client.rack for client in cluster.clients}
    active = copies = 0
    for process, placed in plan.placements.items():
        rack = rack_of[process]
        active += sum(rack not in racks for task in placed.active for racks in cluster.source_racks.get(task, ()))
        copied = placed.standby | placed.warmup
        copies += sum(rack not in racks for task in copied for racks in cluster.changelog_racks.get(task, ()))
    return active, copies
