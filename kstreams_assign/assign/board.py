"""A cluster as small integers: the table on which an assignor lays out tasks before it answers.

Processes are numbered in Java's order of process ids, stateful tasks in the order of task ids. A task knows its holders
(``owner``, ``standbys``, ``warmups``), a client only its counts. No decision lives here.
"""

from __future__ import annotations

from kstreams_assign.assign.java_order import task_order
from kstreams_assign.assign.lags import TaskLags, caught_up
from kstreams_assign.assign.values import Client, Cluster, Placement, Plan
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, process_order

NOBODY = -1


class Board:
    """Who holds which stateful task. ``count`` and ``active_count`` are copies and active tasks per client."""

    def __init__(self, cluster: Cluster) -> None:
        self.clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.capacity = [client.capacity for client in self.clients]
        self.tasks = sorted(cluster.stateful, key=task_order)
        self.stateless = sorted(cluster.stateless, key=task_order)
        self.owner = [NOBODY] * len(self.tasks)
        self.standbys: list[list[int]] = [[] for _ in self.tasks]
        self.warmups: list[list[int]] = [[] for _ in self.tasks]
        self.stateless_owner = [NOBODY] * len(self.stateless)
        self.active_count = [0] * len(self.clients)
        self.count = [0] * len(self.clients)

    def load(self, client: int) -> float:
        """Copies per thread, as the double that Java compares."""
        return self.count[client] / self.capacity[client]

    def holds(self, client: int, task: int) -> bool:
        return self.owner[task] == client or client in self.standbys[task] or client in self.warmups[task]

    def give_active(self, task: int, client: int) -> None:
        self.owner[task] = client
        self.active_count[client] += 1
        self.count[client] += 1

    def take_active(self, task: int) -> None:
        client = self.owner[task]
        self.owner[task] = NOBODY
        self.active_count[client] -= 1
        self.count[client] -= 1

    def give_standby(self, task: int, client: int) -> None:
        self.standbys[task].append(client)
        self.count[client] += 1

    def take_standby(self, task: int, client: int) -> None:
        self.standbys[task].remove(client)
        self.count[client] -= 1

    def give_warmup(self, task: int, client: int) -> None:
        self.warmups[task].append(client)
        self.count[client] += 1

    def plan(self, probing: bool) -> Plan:
        """What was laid out, in the words of the outside."""
        active: list[list[TaskId]] = [[] for _ in self.clients]
        for task, client in zip(self.tasks + self.stateless, self.owner + self.stateless_owner, strict=True):
            active[client].append(task)
        standby, warmup = self._by_client(self.standbys), self._by_client(self.warmups)
        placements = {
            client.process_id: Placement(frozenset(active[n]), frozenset(standby[n]), frozenset(warmup[n]))
            for n, client in enumerate(self.clients)
        }
        return Plan(placements, probing)

    def _by_client(self, holders: list[list[int]]) -> list[list[TaskId]]:
        found: list[list[TaskId]] = [[] for _ in self.clients]
        for task, clients in zip(self.tasks, holders, strict=True):
            for client in clients:
                found[client].append(task)
        return found


class LagTable:
    """Lag of every client on every stateful task, kept sparse: per task the clients that told one, and the rest's lag."""

    def __init__(self, board: Board, acceptable_recovery_lag: int) -> None:
        """Raises ``ConfigError`` when a client has no lag for a stateful task."""
        self.acceptable = acceptable_recovery_lag
        self.clients = range(len(board.clients))
        self.told: list[dict[int, int]] = [{} for _ in board.tasks]
        self.untold = [0] * len(board.tasks)
        shared = next(
            (client.lags.end_offset_sums for client in board.clients if isinstance(client.lags, TaskLags)), {}
        )
        if all(task in shared for task in board.tasks):
            self.untold = [shared[task] for task in board.tasks]
        numbers = {task: number for number, task in enumerate(board.tasks)}
        for number, client in enumerate(board.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._add_told(number, client.lags, numbers)
            else:
                self._add_all(number, client, board.tasks)

    def _add_told(self, number: int, lags: TaskLags, numbers: dict[TaskId, int]) -> None:
        missing = None if len(lags) >= len(numbers) else next((task for task in numbers if task not in lags), None)
        if missing is not None:
            raise ConfigError(f"lags have no entry for stateful task {missing}; every stateful task needs one")
        for task, lag in lags.told.items():
            if task in numbers:
                self.told[numbers[task]][number] = lag

    def _add_all(self, number: int, client: Client, tasks: list[TaskId]) -> None:
        for told, task in zip(self.told, tasks, strict=True):
            if task not in client.lags:
                raise ConfigError(
                    f"lags of process {client.process_id} have no entry for stateful task {task}; "
                    "every stateful task needs one"
                )
            told[number] = client.lags[task]

    def lag(self, task: int, client: int) -> int:
        return self.told[task].get(client, self.untold[task])

    def is_caught_up(self, task: int, client: int) -> bool:
        return caught_up(self.lag(task, client), self.acceptable)

    def caught_up_clients(self, task: int) -> list[int]:
        return [client for client in self.clients if self.is_caught_up(task, client)]

    def by_lag(self, task: int) -> list[int]:
        """All clients, most caught up first; equals in client order."""
        return sorted(self.clients, key=lambda client: self.lag(task, client))

    def least_lag(self, task: int) -> int:
        return min(self.lag(task, client) for client in self.clients)
