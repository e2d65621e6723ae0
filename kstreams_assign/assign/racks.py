"""Traffic between racks as a cost, and when it can be computed (KIP-925; Kafka: ``RackAwareTaskAssignor``).

A task costs the traffic cost for each of its partitions without a replica in the rack of the process. The flow that
follows from it is in ``rack_flow``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kstreams_assign.assign.values import AssignConfig, Client, Cluster, PartitionRacks, Plan
from kstreams_assign.model import TaskId


class Costs(NamedTuple):
    """The cost of a partition without a replica in the rack, and of a task that is not where it was."""

    traffic: int
    away: int


STATELESS_COSTS = Costs(1, 0)
"""Kafka: ``STATELESS_TRAFFIC_COST`` and ``STATELESS_NON_OVERLAP_COST``, regardless of the settings."""


def costs(config: AssignConfig, default: Costs) -> Costs:
    """Return the costs that are set, or the assignor's own defaults."""
    traffic, away = config.rack_aware_assignment_traffic_cost, config.rack_aware_assignment_non_overlap_cost
    return Costs(default.traffic if traffic is None else traffic, default.away if away is None else away)


def why_not_rack_aware(cluster: Cluster, config: AssignConfig) -> str | None:
    """Return what is missing for a rack-aware decision, ``none`` if no strategy is set, None if nothing is missing.

    ``RackAwareTaskAssignor.canEnableRackAwareAssignor``: each process reports one rack, the replicas of each source
    partition have racks and, with standbys, so do those of changelogs.
    """
    if config.rack_aware_assignment_strategy == "none":
        return "none"
    for client in cluster.clients:
        if client.rack is None:
            return (
                f"process {client.process_id} does not report one rack for all its consumers; "
                "set client.rack to the same value in each of them"
            )
    if missing := cluster.tasks - cluster.source_racks.keys():
        return (
            f"the racks of the source partitions' replicas of task {min(missing)} are unknown; "
            "set broker.rack on every broker"
        )
    if config.num_standby_replicas and (missing := cluster.stateful - cluster.changelog_racks.keys()):
        return (
            f"the racks of the changelog partitions' replicas of task {min(missing)} are unknown; "
            "set broker.rack on every broker"
        )
    return None


class RackCosts:
    """Costs by number: ``rack`` per client, ``row`` per task with its cost in each of these racks."""

    def __init__(self, clients: Sequence[Client], traffic: int) -> None:
        self.names = sorted({client.rack for client in clients if client.rack is not None})
        number = {name: each for each, name in enumerate(self.names)}
        self.rack = [number[client.rack or ""] for client in clients]
        self.traffic = traffic
        self._rows: dict[tuple[frozenset[str], ...], list[int]] = {}

    def row(self, partitions: tuple[frozenset[str], ...]) -> list[int]:
        """Return the cost in each rack of a task with these partitions; equal ones share a list."""
        if partitions not in self._rows:
            self._rows[partitions] = [
                self.traffic * sum(name not in racks for racks in partitions) for name in self.names
            ]
        return self._rows[partitions]

    def rows(self, tasks: Sequence[TaskId], partition_racks: PartitionRacks) -> list[list[int]]:
        return [self.row(partition_racks.get(task, ())) for task in tasks]


def cross_rack_partitions(cluster: Cluster, plan: Plan) -> tuple[int, int]:
    """Return the numbers of source partitions of actives, and changelog partitions of replicas, read across racks."""
    rack_of = {client.process_id: client.rack for client in cluster.clients}
    active = copies = 0
    for process, placed in plan.placements.items():
        rack = rack_of[process]
        active += sum(rack not in racks for task in placed.active for racks in cluster.source_racks.get(task, ()))
        copied = placed.standby | placed.warmup
        copies += sum(rack not in racks for task in copied for racks in cluster.changelog_racks.get(task, ()))
    return active, copies
