"""The sticky assignor: tasks stay where they were as far as even shares allow (Kafka: ``LegacyStickyTaskAssignor``).

It ignores lags and makes no warm-ups, so it never asks for a probing rebalance; a task that has to move restores its
state as active. Stateless tasks stay, too. In Java, the tasks that an overloaded process gives away depend on the
order of hash tables. Here they are those whose state a process with room has already, then a mix of subtopologies.
Tasks beyond even shares never stay, so a plan has the fewest owner changes that balance allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.java.thread_balance import anywhere, balance_over_threads
from kstreams_assign.assign.java_order import task_order
from kstreams_assign.assign.shares import Seats
from kstreams_assign.assign.values import AssignConfig, Client, Cluster, Plan
from kstreams_assign.model import TaskId

Holders = Mapping[TaskId, Sequence[int]]
"""Task -> the clients that have, or had, a replica of it, in order."""


def sticky(cluster: Cluster, config: AssignConfig) -> Plan:
    """Place tasks on former owners, then on former standbys, then on the least loaded; standbys likewise."""
    table = PlanTable(cluster)
    former = former_owners(table.clients)
    holders = clients_by_task(client.prev_active | client.prev_standby for client in table.clients)
    owners = seat_tasks(cluster.tasks, Seats(len(cluster.tasks), table.capacity), former, holders)
    for number, task in enumerate(table.tasks):
        table.give_active(number, owners[task])
    for number, task in enumerate(table.stateless):
        table.give_stateless(number, owners[task])
    wanted = min(config.num_standby_replicas, len(table.clients) - 1)
    if wanted > 0:
        pairs = Pairs(table, wanted)
        keep_standbys(pairs, former, holders, wanted)
        fill_up_standbys(pairs, wanted)
        even_out_standbys(pairs)
    return table.plan(probing=False)


def clients_by_task(tasks_by_client: Iterable[Iterable[TaskId]]) -> dict[TaskId, list[int]]:
    """Return, for each task, the clients that name it."""
    by_task: dict[TaskId, list[int]] = {}
    for client, tasks in enumerate(tasks_by_client):
        for task in tasks:
            by_task.setdefault(task, []).append(client)
    return by_task


def former_owners(clients: Sequence[Client]) -> dict[TaskId, int]:
    """Return the client that ran each task; of several claims the first counts."""
    return {task: claims[0] for task, claims in clients_by_task(client.prev_active for client in clients).items()}


def seat_tasks(
    tasks: frozenset[TaskId], seats: Seats, former: Mapping[TaskId, int], holders: Holders
) -> dict[TaskId, int]:
    """Give every task a seat: with its former owner, then with a holder of its state, then with the least loaded."""

    def stays_best(task: TaskId) -> tuple[bool, int, tuple[bytes, int, int]]:
        wanted_elsewhere = any(client in receivers for client in holders.get(task, ()))
        return wanted_elsewhere, task.partition, task_order(task)

    held = Seats(len(tasks), seats.capacity, (former[task] for task in tasks if task in former))
    receivers = {client for client in range(len(held.capacity)) if held.below_share(client)}
    owners: dict[TaskId, int] = {}
    returning = sorted((task for task in tasks if task in former), key=stays_best)
    for task in returning:
        if seats.has_room(former[task]):
            _seat(task, former[task], owners, seats)
    for task in sorted(tasks - owners.keys(), key=task_order):
        if room := [client for client in holders.get(task, ()) if seats.has_room(client)]:
            _seat(task, min(room, key=seats.load), owners, seats)
    _seat_evenly(sorted(tasks - owners.keys(), key=task_order), owners, seats)
    return owners


def _seat(task: TaskId, client: int, owners: dict[TaskId, int], seats: Seats) -> None:
    owners[task] = client
    seats.take(client)


def _seat_evenly(tasks: Iterable[TaskId], owners: dict[TaskId, int], seats: Seats) -> None:
    """Give each task, in order, to the least loaded client that has room, or to the least loaded of all."""
    heap = [(not seats.has_room(client), *seats.load(client)) for client in range(len(seats.capacity))]
    heapify(heap)
    for task in tasks:
        while not heap[0][0] and not seats.has_room(client := heap[0][-1]):
            heapreplace(heap, (True, *seats.load(client)))
        client = heap[0][-1]
        _seat(task, client, owners, seats)
        heapreplace(heap, (not seats.has_room(client), *seats.load(client)))


class Pairs:
    """The pairs of tasks that are together on some client. Clients should differ in them.

    ``masks`` has a bit for each replica of a client: with 6,000 tasks on each, pairs looked up singly take seconds. A
    task with ``wanted`` standbys meets about ``(wanted + 1) ** 2 / clients`` of all tasks. Far above 1 the group is
    ``crowded``: every task meets every other, and pairs are ignored.
    """

    def __init__(self, table: PlanTable, wanted: int) -> None:
        self.table = table
        self.crowded = (wanted + 1) ** 2 > 4 * len(table.clients)
        self.masks = [0] * len(table.clients)
        self.standbys: list[set[int]] = [set() for _ in table.clients]
        self.has_stateless = set(table.stateless_owner)
        for task, owner in enumerate(table.owner):
            self.masks[owner] |= 1 << task

    def give_standby(self, task: int, client: int) -> None:
        self.table.give_standby(task, client)
        self.masks[client] |= 1 << task
        self.standbys[client].add(task)

    def take_standby(self, task: int, client: int) -> None:
        self.table.take_standby(task, client)
        self.masks[client] &= ~(1 << task)
        self.standbys[client].remove(task)

    def has_new_pair(self, task: int, client: int) -> bool:
        """Return whether the task would meet a task here that it meets nowhere else, or the client is empty."""
        if self.crowded or client in self.has_stateless or not self.masks[client]:
            return True
        met = 0
        for holder in self.table.holders[task]:
            met |= self.masks[holder]
        return self.masks[client] & ~met != 0

    def load(self, client: int) -> tuple[float, int, int]:
        table = self.table
        return table.count[client] / table.capacity[client], -table.capacity[client], client


def keep_standbys(pairs: Pairs, former: Mapping[TaskId, int], holders: Holders, wanted: int) -> None:
    """Keep standbys where they were; a former owner comes first, because its state is complete."""
    table = pairs.table
    for number, task in enumerate(table.tasks):
        warm = [client for client in holders.get(task, ()) if client != table.owner[number]]
        warm.sort(key=lambda client: (client != former.get(task), pairs.load(client)))
        for client in warm[:wanted]:
            pairs.give_standby(number, client)


def fill_up_standbys(pairs: Pairs, wanted: int) -> None:
    """Give missing standbys to the least loaded client where the task makes a new pair, else to the least loaded."""
    table = pairs.table
    heap = [pairs.load(client) for client in range(len(table.clients))]
    heapify(heap)
    for task in range(len(table.tasks)):
        for _ in range(wanted - len(table.standbys(task))):
            _give_standby(pairs, heap, task)


def _give_standby(pairs: Pairs, heap: list[tuple[float, int, int]], task: int) -> None:
    passed: list[tuple[float, int, int]] = []
    free: list[int] = []
    chosen = None
    while heap and chosen is None:
        passed.append(heappop(heap))
        client = passed[-1][-1]
        if client in pairs.table.holders[task]:
            continue
        free.append(client)
        if pairs.has_new_pair(task, client):
            chosen = client
    pairs.give_standby(task, free[0] if chosen is None else chosen)
    for entry in passed:
        heappush(heap, pairs.load(entry[-1]))


def even_out_standbys(pairs: Pairs) -> None:
    """Move standbys until no move balances replicas per thread any better; moves that make new pairs come first."""

    def move(task: int, source: int, destination: int) -> bool:
        if destination in pairs.table.holders[task]:
            return False
        pairs.take_standby(task, source)
        pairs.give_standby(task, destination)
        return True

    def move_to_new_pair(task: int, source: int, destination: int) -> bool:
        free = destination not in pairs.table.holders[task]
        return free and pairs.has_new_pair(task, destination) and move(task, source, destination)

    for rule in (move_to_new_pair, move):
        balance_over_threads(pairs.standbys, pairs.table.count, pairs.table.capacity, anywhere, rule)
