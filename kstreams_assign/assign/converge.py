"""Assign, apply, catch up, again: what a group goes through until nobody asks for a probing rebalance.

Pure rounds without a broker, one decision each (KIP-429 follow-ups are no rounds). ``what-if``, tests and benchmarks count
owner changes and rounds with it; the simulator has the protocol and its faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kstreams_assign.assign.balance import owner_changes
from kstreams_assign.assign.lags import TaskLags
from kstreams_assign.assign.values import AssignConfig, Assignor, Client, Cluster, Placement, Plan
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

ALL_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Round:
    """One decision: the cluster it saw, the plan, and what that did to owners (``balance.owner_changes``)."""

    cluster: Cluster
    plan: Plan
    changed: tuple[TaskId, ...]
    adopted: tuple[TaskId, ...]


def converge(
    cluster: Cluster,
    config: AssignConfig,
    assignor: Assignor,
    end_offset_sums: Mapping[TaskId, int],
    *,
    offsets_per_round: int = ALL_OFFSETS,
    rounds_max: int = 1000,
) -> list[Round]:
    """Rounds until a plan asks for no probe, at most ``rounds_max`` (then the last one still asks).

    ``end_offset_sums`` has the size of each stateful task's changelogs in offsets; between two rounds every standby and
    warm-up reads ``offsets_per_round`` of them.
    """
    rounds: list[Round] = []
    owners = previous_owners(cluster)
    while len(rounds) < rounds_max and (not rounds or rounds[-1].plan.probing):
        plan = assignor(cluster, config)
        changed, adopted = owner_changes(owners, plan.owners, cluster.capacities)
        rounds.append(Round(cluster, plan, tuple(changed), tuple(adopted)))
        owners = plan.owners
        cluster = after(cluster, plan, end_offset_sums, offsets_per_round)
    return rounds


def previous_owners(cluster: Cluster) -> dict[TaskId, UUID]:
    """Task -> the process that ran it, for all that some process ran."""
    return {task: client.process_id for client in cluster.clients for task in client.prev_active}


def after(
    cluster: Cluster, plan: Plan, end_offset_sums: Mapping[TaskId, int], offsets_per_round: int = ALL_OFFSETS
) -> Cluster:
    """The cluster at the next rebalance: actives run, copies have read on, all other state is cleaned away."""
    clients = tuple(
        _client_after(client, plan.placements[client.process_id], end_offset_sums, offsets_per_round)
        for client in cluster.clients
    )
    return replace(cluster, clients=clients)


def _client_after(client: Client, placed: Placement, end: Mapping[TaskId, int], offsets_per_round: int) -> Client:
    copies = placed.standby | placed.warmup
    sums = {task: min(end[task], _position(client, task, end[task]) + offsets_per_round) for task in copies}
    sums |= {task: RUNNING_OFFSET_SUM for task in placed.active if task in end}
    return replace(client, prev_active=placed.active, prev_standby=copies, lags=TaskLags(end, sums))


def _position(client: Client, task: TaskId, end: int) -> int:
    """How far the process has got with a task: to the end if it ran it, to nowhere if that is not known."""
    lag = client.lags[task]
    if lag < 0:
        return end if lag == RUNNING_OFFSET_SUM else 0
    return max(0, end - lag)
