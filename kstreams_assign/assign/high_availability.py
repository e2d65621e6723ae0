"""The KIP-441 assignor, equal to Kafka 4.3.1's ``HighAvailabilityTaskAssignor`` (rack-aware strategy ``none``).

The order of the steps is Java's and matters: lay out a balanced target, add standbys, move copies to where the state is
warm, and only then hand out stateless tasks. Beyond Java's answer the plan tells warm-ups from standbys.
"""

from __future__ import annotations

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.fewest_actives import give_to_fewest_actives
from kstreams_assign.assign.lag_table import LagTable
from kstreams_assign.assign.movements import WarmupBudget, move_actives, move_standbys
from kstreams_assign.assign.standbys import place_standbys, place_standbys_over_tags, same_tags
from kstreams_assign.assign.thread_balance import MayMove, anywhere, balance_over_threads
from kstreams_assign.assign.values import AssignConfig, Cluster, Plan


def high_availability(cluster: Cluster, config: AssignConfig) -> Plan:
    """Decide as Java does. Raises ``ConfigError`` when a client has no lag for a stateful task."""
    board = Board(cluster)
    lags = LagTable(board, config.acceptable_recovery_lag)
    lay_out_actives(board)
    lay_out_standbys(board, config)
    budget = WarmupBudget(config.max_warmup_replicas)
    movements = move_actives(board, lags, budget)
    movements += move_standbys(board, lags, budget)
    give_to_fewest_actives(board, range(len(board.stateless)), board.give_stateless)
    return board.plan(probing=movements > 0)


def lay_out_actives(board: Board) -> None:
    """Deal the tasks round, then even them out over threads."""
    clients = len(board.clients)
    held = [set(range(client, len(board.tasks), clients)) for client in range(clients)]
    for task in range(len(board.tasks)):
        board.give_active(task, task % clients)

    def move(task: int, source: int, destination: int) -> bool:
        board.take_active(task)
        board.give_active(task, destination)
        held[source].remove(task)
        held[destination].add(task)
        return True

    balance_over_threads(held, board.count, board.capacity, anywhere, move)


def lay_out_standbys(board: Board, config: AssignConfig) -> None:
    """Give every task its standbys, then even them out over threads."""
    if config.num_standby_replicas == 0:
        return
    may_move: MayMove = anywhere
    if config.rack_aware_assignment_tags:
        place_standbys_over_tags(board, config.num_standby_replicas, config.rack_aware_assignment_tags)
        may_move = same_tags(board)
    else:
        place_standbys(board, config.num_standby_replicas)
    held: list[set[int]] = [set() for _ in board.clients]
    for task in range(len(board.tasks)):
        for client in board.holders[task]:
            if client != board.owner[task]:
                held[client].add(task)

    def move(task: int, source: int, destination: int) -> bool:
        if destination in board.holders[task]:
            return False
        board.take_standby(task, source)
        board.give_standby(task, destination)
        held[source].remove(task)
        held[destination].add(task)
        return True

    balance_over_threads(held, board.count, board.capacity, may_move, move)
