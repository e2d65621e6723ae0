"""The assignor for when lags are not to be had: everything stays where it was (Kafka: ``FallbackPriorTaskAssignor``).

Lags are not looked at, and a probing rebalance is always asked for, so that a real decision follows. Java's answer also
hangs on the order of its hash tables where several processes would do; here processes and tasks go in their own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.assign.board import NOBODY, Board
from kstreams_assign.assign.fewest_actives import give_to_fewest_actives
from kstreams_assign.assign.standbys import LeastLoaded
from kstreams_assign.assign.values import AssignConfig, Cluster, Plan
from kstreams_assign.model import TaskId

Holders = Mapping[TaskId, list[int]]


def fallback_prior(cluster: Cluster, config: AssignConfig) -> Plan:
    """Every task back to its owner; orphans to a former standby with room, or evenly; standbys where they were."""
    board = Board(cluster)
    owners = _clients_by_task(client.prev_active for client in board.clients)
    holders = _clients_by_task(client.prev_active | client.prev_standby for client in board.clients)
    give_back_actives(board, owners)
    promote_standbys(board, holders)
    orphans = [task for task, owner in enumerate(board.owner) if owner == NOBODY]
    give_to_fewest_actives(board, orphans, board.give_active)
    stateless = [task for task, owner in enumerate(board.stateless_owner) if owner == NOBODY]
    give_to_fewest_actives(board, stateless, board.give_stateless)
    wanted = min(config.num_standby_replicas, max(0, len(board.clients) - 1))
    keep_standbys(board, holders, wanted)
    fill_up_standbys(board, wanted)
    return board.plan(probing=True)


def _clients_by_task(tasks_by_client: Iterable[Iterable[TaskId]]) -> Holders:
    found: dict[TaskId, list[int]] = {}
    for client, tasks in enumerate(tasks_by_client):
        for task in tasks:
            found.setdefault(task, []).append(client)
    return found


def give_back_actives(board: Board, owners: Holders) -> None:
    """Every task to its previous owner, whatever that does to balance; of several claims the first counts."""
    for number, task in enumerate(board.tasks):
        if task in owners:
            board.give_active(number, owners[task][0])
    for number, task in enumerate(board.stateless):
        if task in owners:
            board.give_stateless(number, owners[task][0])


def promote_standbys(board: Board, holders: Holders) -> None:
    """An orphan to the least loaded process that holds state of it, as long as that one is below its even share."""
    share = (len(board.tasks) + len(board.stateless)) // max(1, sum(board.capacity))
    for number, task in enumerate(board.tasks):
        if board.owner[number] != NOBODY:
            continue
        room = [
            client for client in holders.get(task, ()) if board.active_count[client] < board.capacity[client] * share
        ]
        if room:
            board.give_active(number, min(room, key=lambda client: board.count[client] / board.capacity[client]))


def keep_standbys(board: Board, holders: Holders, wanted: int) -> None:
    """A standby for every process that holds state of the task; if those are too many, for the least loaded ones."""
    for number, task in enumerate(board.tasks):
        warm = [client for client in holders.get(task, ()) if client != board.owner[number]]
        warm.sort(key=lambda client: board.count[client] / board.capacity[client])
        for client in warm[:wanted]:
            board.give_standby(number, client)


def fill_up_standbys(board: Board, wanted: int) -> None:
    """What standbys are still missing go to the least loaded processes without a copy."""
    queue = LeastLoaded(board)
    for number in range(len(board.tasks)):
        for _ in range(wanted - len(board.standbys(number))):
            queue.give_standby(number)
