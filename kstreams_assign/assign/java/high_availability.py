"""The KIP-441 assignor, equal to Kafka 4.3.1's ``HighAvailabilityTaskAssignor`` with its rack-aware strategies.

The order of the steps is Java's and matters: lay out a balanced target, add standbys, move replicas to where the state
is warm, and only then assign stateless tasks. Unlike Java's result, the plan separates warm-ups from standbys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.assign.java.fewest_actives import give_to_fewest_actives
from kstreams_assign.assign.java.lag_table import LagTable
from kstreams_assign.assign.java.movements import WarmupBudget, move_actives, move_standbys
from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.java.standbys import as_many_tags, place_standbys, place_standbys_over_tags, same_tags
from kstreams_assign.assign.java.thread_balance import MayMove, anywhere, balance_over_threads
from kstreams_assign.assign.racks import Costs, costs, why_not_rack_aware
from kstreams_assign.assign.values import AssignConfig, Cluster, Plan

if TYPE_CHECKING:
    from kstreams_assign.assign.java.rack_aware import MayMoveStandby, RackAware

RACK_COSTS = Costs(10, 1)
"""Kafka: ``DEFAULT_HIGH_AVAILABILITY_TRAFFIC_COST`` and ``DEFAULT_HIGH_AVAILABILITY_NON_OVERLAP_COST``."""


def high_availability(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide as Java does. Raises ``ConfigError`` when a client has no lag for a stateful task."""
    table = PlanTable(cluster)
    lags = LagTable(table, config.acceptable_recovery_lag)
    racks = rack_steps(table, cluster, config)
    lay_out_actives(table)
    if racks:
        racks.actives()
    lay_out_standbys(table, config, racks)
    budget = WarmupBudget(config.max_warmup_replicas)
    movements = move_actives(table, lags, budget)
    movements += move_standbys(table, lags, budget)
    give_to_fewest_actives(table, range(len(table.stateless)), table.give_stateless)
    if racks:
        racks.stateless()
    return table.plan(probing=movements > 0)


def rack_steps(table: PlanTable, cluster: Cluster, config: AssignConfig) -> RackAware | None:
    """Return the rack-aware steps, or None where racks are not used or not known."""
    if why_not_rack_aware(cluster, config):
        return None
    from kstreams_assign.assign.java.rack_aware import RackAware  # few groups need it

    return RackAware(table, cluster, config, costs(config, RACK_COSTS))


def lay_out_actives(table: PlanTable) -> None:
    """Deal the tasks to clients in turn, then balance them over threads."""
    clients = len(table.clients)
    held = [set(range(client, len(table.tasks), clients)) for client in range(clients)]
    for task in range(len(table.tasks)):
        table.give_active(task, task % clients)

    def move(task: int, source: int, destination: int) -> bool:
        table.take_active(task)
        table.give_active(task, destination)
        held[source].remove(task)
        held[destination].add(task)
        return True

    balance_over_threads(held, table.count, table.capacity, anywhere, move)


def lay_out_standbys(table: PlanTable, config: AssignConfig, racks: RackAware | None) -> None:
    """Give every task its standbys, balance them over threads, then apply the rack-aware step."""
    if config.num_standby_replicas == 0:
        return
    may_move: MayMove = anywhere
    may_swap: MayMoveStandby = to_any_client
    if config.rack_aware_assignment_tags:
        place_standbys_over_tags(table, config.num_standby_replicas, config.rack_aware_assignment_tags)
        may_move, may_swap = same_tags(table), as_many_tags(table)
    else:
        place_standbys(table, config.num_standby_replicas)
    held: list[set[int]] = [set() for _ in table.clients]
    for task in range(len(table.tasks)):
        for client in table.holders[task]:
            if client != table.owner[task]:
                held[client].add(task)

    def move(task: int, source: int, destination: int) -> bool:
        if destination in table.holders[task]:
            return False
        table.take_standby(task, source)
        table.give_standby(task, destination)
        held[source].remove(task)
        held[destination].add(task)
        return True

    balance_over_threads(held, table.count, table.capacity, may_move, move)
    if racks:
        racks.standbys(may_swap)


def to_any_client(task: int, source: int, destination: int) -> bool:  # noqa: ARG001 - a MayMoveStandby that allows all
    """Allow any move: without client tags a standby may go to any client."""
    return True
