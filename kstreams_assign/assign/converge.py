"""Repeat "assign, apply, catch up" until no plan asks for a probing rebalance.

Rounds are pure, without a broker; each is one decision (a KIP-429 follow-up is not a round). ``what-if``, tests and
benchmarks count owner changes and rounds with it. The simulator has the protocol and its faults.
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
    """One decision: the cluster it saw, the plan, and the resulting owner changes (``balance.owner_changes``)."""

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
    """Return the rounds until a plan asks for no probe, ``rounds_max`` at most (then the last one still asks).

    ``end_offset_sums`` is the size of each stateful task's changelogs in offsets. Between two rounds every standby and
    warm-up reads ``offsets_per_round`` of them.
    """
    rounds: list[Round] = []
    owners = previous_owners(cluster)
    while len(rounds) < rounds_max and (not rounds or rounds[-1].plan.probing):
        plan = assignor(cluster, config)
        changed, adopted = owner_changes(owners, plan.owners, cluster.capacities)
        rounds.append(Round(cluster, plan, tuple(changed), tuple(adopted)))
        owners = plan.owners
        cluster = apply_plan(cluster, plan, end_offset_sums, offsets_per_round)
    return rounds


def previous_owners(cluster: Cluster) -> dict[TaskId, UUID]:
    """Return the process that ran each task. Tasks that no process ran are missing."""
    return {task: client.process_id for client in cluster.clients for task in client.prev_active}


def apply_plan(
    cluster: Cluster, plan: Plan, end_offset_sums: Mapping[TaskId, int], offsets_per_round: int = ALL_OFFSETS
) -> Cluster:
    """Return the cluster at the next rebalance: actives run, replicas have read on, all other state is deleted."""
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
    """Return the offset that the process has reached: the end if it ran the task, 0 if the position is unknown."""
    lag = client.lags[task]
    if lag < 0:
        return end if lag == RUNNING_OFFSET_SUM else 0
    return max(0, end - lag)
