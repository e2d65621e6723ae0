"""A cluster as small integers: the table on which an assignor lays out tasks before it returns a plan.

Processes are numbered in Java's order of process ids, stateful tasks in the order of task ids. The table stores the
holders of each task, but only counts for each client. It makes no decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.values import Cluster, Placement, Plan
from kstreams_assign.model import TaskId, process_order

NO_CLIENT = -1

Lists = list[list[TaskId]]


def load_units(capacity: Sequence[int]) -> list[int]:
    """Return what one replica adds to each client's key.

    Keys (replicas times unit, plus client) sort by load, then client. A load is replicas divided by threads; the
    threads' common multiple makes it a whole number. Equal quotients are equal doubles in Java and different ones are
    different, so keys compare as Java's loads do.
    """
    common = lcm(*capacity)
    return [common // threads * len(capacity) for threads in capacity]


class PlanTable:
    """The layout of stateful tasks: ``holders`` has the owner, the standbys and the warm-ups of each task.

    ``active_count`` and ``count`` are the active tasks and all replicas of each client.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.capacity = [client.capacity for client in self.clients]
        self.tasks = sorted_tasks(cluster.stateful)
        self.stateless = sorted_tasks(cluster.stateless)
        self.owner = [NO_CLIENT] * len(self.tasks)
        self.holders: list[set[int]] = [set() for _ in self.tasks]
        self.warmups: dict[int, set[int]] = {}
        self.stateless_owner = [NO_CLIENT] * len(self.stateless)
        self.active_count = [0] * len(self.clients)
        self.count = [0] * len(self.clients)

    def standbys(self, task: int) -> set[int]:
        """Return the clients with a standby of the task, without warm-ups."""
        return self.holders[task] - {self.owner[task]} - self.warmups.get(task, set())

    def give_active(self, task: int, client: int) -> None:
        self.owner[task] = client
        self.active_count[client] += 1
        self._give(task, client)

    def give_stateless(self, task: int, client: int) -> None:
        self.stateless_owner[task] = client
        self.active_count[client] += 1
        self.count[client] += 1

    def take_active(self, task: int) -> None:
        client = self.owner[task]
        self.owner[task] = NO_CLIENT
        self.active_count[client] -= 1
        self._take(task, client)

    def swap_active(self, task: int, client: int) -> None:
        """Make the client's standby active and the owner's replica a standby."""
        self.active_count[self.owner[task]] -= 1
        self.active_count[client] += 1
        self.owner[task] = client

    def give_standby(self, task: int, client: int) -> None:
        self._give(task, client)

    def give_standbys(self, task: int, clients: Iterable[int]) -> None:
        """Give standbys to clients that hold no replica yet."""
        self.holders[task].update(clients)
        for client in clients:
            self.count[client] += 1

    def take_standby(self, task: int, client: int) -> None:
        self._take(task, client)

    def give_warmup(self, task: int, client: int) -> None:
        self.warmups.setdefault(task, set()).add(client)
        self._give(task, client)

    def _give(self, task: int, client: int) -> None:
        self.holders[task].add(client)
        self.count[client] += 1

    def _take(self, task: int, client: int) -> None:
        self.holders[task].remove(client)
        self.count[client] -= 1

    def plan(self, probing: bool) -> Plan:
        """Return the layout as a plan."""
        active: Lists = [[] for _ in self.clients]
        standby: Lists = [[] for _ in self.clients]
        warmup: Lists = [[] for _ in self.clients]
        for task, owner in zip(self.stateless, self.stateless_owner, strict=True):
            active[owner].append(task)
        for number, (task, owner, holders) in enumerate(zip(self.tasks, self.owner, self.holders, strict=True)):
            active[owner].append(task)
            warming = self.warmups.get(number, ())
            for client in holders:
                if client != owner:
                    (warmup if client in warming else standby)[client].append(task)
        return Plan(
            {
                client.process_id: Placement(frozenset(active[n]), frozenset(standby[n]), frozenset(warmup[n]))
                for n, client in enumerate(self.clients)
            },
            probing,
        )
