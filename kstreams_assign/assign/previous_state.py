"""What every process ran and holds, as small integers: the table from which ``least_movement`` plans.

Clients are numbered in the order of process ids, tasks in the order of task ids, stateful tasks first. Lags are
sparse: per task the lags that clients reported, and one lag for all other clients. The table only reads; it makes no
decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import KEPT_UP_TO, UNBOUNDED_LAG, TaskLags, offsets_to_restore
from kstreams_assign.assign.values import Cluster
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, process_order

NO_CLIENT = -1
UNKNOWN_RANK = 1
ORPHANS_MAX = 200
"""Up to this number of tasks without an owner, replicas are compared exactly.

Beyond it, caught-up replicas count as complete. The exact search (``exchanges``) has to weigh each difference between
replicas: a large group that starts with all its state on disk would search for minutes to save a few records each.
"""


class PreviousState:
    """Previous owners and lags. Raises ``ConfigError`` when a client lacks the lag of a stateful task.

    ``reported_lags[task]`` maps client -> lag where that differs from ``unreported_lag[task]``, the lag of all other
    clients. For a stateless task it is empty, and all lags are 0. ``cold[task]`` is the rank of the other clients,
    ``cold_restore[task]`` the offsets that they have to restore. ``owner[task]`` ran the task before, or is
    ``NO_CLIENT``.
    """

    def __init__(self, cluster: Cluster, acceptable_recovery_lag: int) -> None:
        self.clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.capacity = [client.capacity for client in self.clients]
        self.stateful = len(cluster.stateful)
        self.tasks = sorted_tasks(cluster.stateful) + (sorted_tasks(cluster.stateless) if cluster.stateless else [])
        self.acceptable = acceptable_recovery_lag
        self.numbers = {task: number for number, task in enumerate(self.tasks)}
        self.reported_lags: list[dict[int, int]] = [{} for _ in self.tasks]
        self.unreported_lag = self._read_lags() + [0] * (len(self.tasks) - self.stateful)
        ranks = {lag: self.rank_of(lag) for lag in set(self.unreported_lag)}
        self.cold = [ranks[lag] for lag in self.unreported_lag]
        self.owner = [NO_CLIENT] * len(self.tasks)
        for number, client in enumerate(self.clients):
            self._claim(number, client.prev_active)
        orphans = sum(
            owner == NO_CLIENT and bool(lags) for owner, lags in zip(self.owner, self.reported_lags, strict=True)
        )
        self.restore_of = self.rank_of if orphans > ORPHANS_MAX else offsets_to_restore
        self.cold_restore = [offsets_to_restore(lag) for lag in self.unreported_lag]

    def _read_lags(self) -> list[int]:
        """Fill ``reported_lags``; return the lag of other clients per task: the end offset sums, or the largest lag."""
        stateful = self.tasks[: self.stateful]
        shared = next(
            (client.lags.end_offset_sums for client in self.clients if isinstance(client.lags, TaskLags)), None
        )
        dense = {}
        for number, client in enumerate(self.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._read_reported(number, client.lags.reported)
            else:
                dense[number] = _all_lags(stateful, client.lags)
        if shared is not None:
            unreported_lags = _all_lags(stateful, shared)
        else:
            unreported_lags = [max(lags) for lags in zip(*dense.values(), strict=True)]
        for number, lags in dense.items():
            for reported, lag, others in zip(self.reported_lags, lags, unreported_lags, strict=False):
                if lag != others:
                    reported[number] = lag
        return unreported_lags

    def _read_reported(self, client: int, lags: Mapping[TaskId, int]) -> None:
        reported_lags, stateful = self.reported_lags, self.stateful
        for number, lag in zip(map(self.numbers.get, lags), lags.values(), strict=True):
            if number is not None and number < stateful:
                reported_lags[number][client] = lag

    def _claim(self, client: int, ran: Iterable[TaskId]) -> None:
        """Record what the client ran. If two clients claim a task, the more caught-up client wins, then the first."""
        owner = self.owner
        for task in map(self.numbers.get, ran):
            if task is None:
                continue
            if owner[task] == NO_CLIENT or self.rank(task, client) < self.rank(task, owner[task]):
                owner[task] = client

    def ready(self, lag: int) -> bool:
        """Return whether a replica with this lag may run at once, as ``lags.is_caught_up``."""
        return lag == RUNNING_OFFSET_SUM or 0 <= lag <= self.acceptable or self.acceptable >= UNBOUNDED_LAG

    def rank_of(self, lag: int) -> int:
        """Return the rank of a lag: 0 if caught up, else the lag plus 1.

        An unknown position (-3) ranks 1: Kafka sorts it before all known ones.
        """
        return 0 if -1 <= lag <= self.acceptable or self.ready(lag) else max(lag + 1, UNKNOWN_RANK)

    def rank(self, task: int, client: int) -> int:
        """Return how far the client is from caught up, as ``rank_of``."""
        lag = self.reported_lags[task].get(client)
        return self.cold[task] if lag is None else self.rank_of(lag)

    def restore(self, task: int, client: int) -> int:
        """Return the offsets of the task that the client has to restore, as ``restore_of`` counts them."""
        lag = self.reported_lags[task].get(client)
        return self.cold_restore[task] if lag is None else self.restore_of(lag)

    def least_rank(self, task: int) -> int:
        ranks = [self.rank_of(lag) for lag in self.reported_lags[task].values()]
        if len(ranks) < len(self.clients):
            ranks.append(self.cold[task])
        return min(ranks)

    def may_run(self, task: int, client: int) -> bool:
        """Return whether the client is among the most caught-up ones."""
        if self.reported_lags[task].get(client) == RUNNING_OFFSET_SUM or not self.reported_lags[task]:
            return True
        mine = self.rank(task, client)
        return mine == 0 or mine == self.least_rank(task)

    def may_keep(self, task: int) -> bool:
        """Return whether the task has an owner that may go on running it, or restoring it.

        An owner may run a task if it is among the most caught-up clients. If none has caught up, it goes on restoring
        the task unless a client that has more of it would have it in less than half the time.
        """
        owner = self.owner[task]
        if owner == NO_CLIENT:
            return False
        if self.may_run(task, owner):
            return True
        return self.restarts(task) and not any(
            self._backlog[owner] > KEPT_UP_TO * (self._backlog[client] + self.lacks(task, client))
            for client in self.ahead(task, owner)
        )

    def restarts(self, task: int) -> bool:
        """Return whether a restore of the task may begin again on another client: none has caught up, for certain."""
        return self.least_rank(task) > UNKNOWN_RANK

    def ahead(self, task: int, client: int) -> Iterator[int]:
        """Yield the clients that are more caught up than this one."""
        mine, reported = self.rank(task, client), self.reported_lags[task]
        yield from (other for other, lag in reported.items() if self.rank_of(lag) < mine)
        if self.cold[task] < mine:
            yield from (other for other in range(len(self.clients)) if other not in reported)

    def lacks(self, task: int, client: int) -> int:
        """Return the offsets that the client lacks of the task, however few are acceptable."""
        return offsets_to_restore(self.reported_lags[task].get(client, self.unreported_lag[task]))

    @cached_property
    def _backlog(self) -> list[int]:
        """The offsets that the tasks of each client lack there, as they were owned before."""
        backlog = [0] * len(self.clients)
        for task, owner in enumerate(self.owner):
            if owner != NO_CLIENT:
                backlog[owner] += self.lacks(task, owner)
        return backlog

    def most_caught_up(self, task: int) -> list[int] | None:
        """Return the clients of least rank, in order; ``None`` means all clients."""
        reported, least = self.reported_lags[task], self.least_rank(task)
        ranks = {client: self.rank_of(lag) for client, lag in reported.items()}
        if len(reported) == len(self.clients) or self.cold[task] > least:
            best = sorted(client for client, mine in ranks.items() if mine == least)
            return None if len(best) == len(self.clients) else best
        worse = {client for client, mine in ranks.items() if mine > least}
        return [client for client in range(len(self.clients)) if client not in worse] if worse else None

    def with_copies(self, task: int) -> list[int]:
        """Return the clients that have less to restore than a client without a replica; empty if all have."""
        cold = self.cold_restore[task]
        clients = [client for client, lag in self.reported_lags[task].items() if self.restore_of(lag) < cold]
        return clients if len(clients) < len(self.clients) else []

    def holders(self, task: int, without: int) -> list[tuple[int, int, int]]:
        """Return (rank, lag, client) of each other client whose replica saves anything.

        The client that runs the task has the least lag.
        """
        rank_of, restore_of, useless = self.rank_of, self.restore_of, max(self.cold_restore[task], 1)
        return [
            (rank_of(lag), lag, client)
            for client, lag in self.reported_lags[task].items()
            if client != without and restore_of(lag) < useless
        ]


def _all_lags(tasks: Iterable[TaskId], lags: Mapping[TaskId, int]) -> list[int]:
    """Return the lag of each task. Raises ``ConfigError`` with the text of ``LagTable``."""
    all_lags = []
    for task in tasks:
        lag = lags.get(task)
        if lag is None:
            raise ConfigError(f"lags have no entry for stateful task {task}; every stateful task needs one")
        all_lags.append(lag)
    return all_lags
