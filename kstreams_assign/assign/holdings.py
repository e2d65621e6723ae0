"""What every process ran and holds, in small integers: the table from which ``least_movement`` plans.

Clients are numbered in the order of process ids, tasks in the order of task ids, stateful ones first. Lags are kept sparse: per
task what clients told, and one lag for all others. Reading only; no decision lives here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import UNBOUNDED_LAG, TaskLags
from kstreams_assign.assign.values import Cluster
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM, TaskId, process_order

NOBODY = -1
ORPHANS_MAX = 200
"""Up to this number of tasks without an owner, copies are compared exactly.

Beyond it, caught-up copies count as complete. The exact search (``exchanges``) has to weigh each difference between
copies: a large group that starts with all its state on disk would search for minutes to save some records of each.
"""


class Holdings:
    """Previous owners and lags. Raises ``ConfigError`` when a client lacks the lag of a stateful task.

    ``told[task]`` maps client -> lag where that is not ``untold[task]``, the lag of all other clients. For a stateless
    task it is empty, and all lags are 0. ``cold[task]`` is the rank of the other clients, ``cold_restore[task]`` the
    offsets that they have to restore. ``owner[task]`` ran the task before, or is ``NOBODY``. ``by_rank``: a caught-up
    copy counts as complete, as in version 1 of the assignor; otherwise the offsets that it lacks count.
    """

    def __init__(self, cluster: Cluster, acceptable_recovery_lag: int, *, by_rank: bool = False) -> None:
        self.clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.capacity = [client.capacity for client in self.clients]
        self.stateful = len(cluster.stateful)
        self.tasks = sorted_tasks(cluster.stateful) + (sorted_tasks(cluster.stateless) if cluster.stateless else [])
        self.acceptable = acceptable_recovery_lag
        self.numbers = {task: number for number, task in enumerate(self.tasks)}
        self.told: list[dict[int, int]] = [{} for _ in self.tasks]
        self.untold = self._read_lags() + [0] * (len(self.tasks) - self.stateful)
        ranks = {lag: self.rank_of(lag) for lag in set(self.untold)}
        self.cold = [ranks[lag] for lag in self.untold]
        self.owner = [NOBODY] * len(self.tasks)
        for number, client in enumerate(self.clients):
            self._claim(number, client.prev_active)
        orphans = sum(owner == NOBODY and bool(lags) for owner, lags in zip(self.owner, self.told, strict=True))
        self.restore_of = self.rank_of if by_rank or orphans > ORPHANS_MAX else offsets_to_restore
        self.cold_restore = self.cold if by_rank else [offsets_to_restore(lag) for lag in self.untold]

    def _read_lags(self) -> list[int]:
        """Fill ``told``; answer what everybody else's lag is: the end offset sums, or the largest lag there is."""
        stateful = self.tasks[: self.stateful]
        shared = next((one.lags.end_offset_sums for one in self.clients if isinstance(one.lags, TaskLags)), None)
        dense = {}
        for number, client in enumerate(self.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._read_told(number, client.lags.told)
            else:
                dense[number] = _all_lags(stateful, client.lags)
        if shared is not None:
            untold = _all_lags(stateful, shared)
        else:
            untold = [max(lags) for lags in zip(*dense.values(), strict=True)]
        for number, lags in dense.items():
            for told, lag, others in zip(self.told, lags, untold, strict=False):
                if lag != others:
                    told[number] = lag
        return untold

    def _read_told(self, client: int, lags: Mapping[TaskId, int]) -> None:
        told, stateful = self.told, self.stateful
        for number, lag in zip(map(self.numbers.get, lags), lags.values(), strict=True):
            if number is not None and number < stateful:
                told[number][client] = lag

    def _claim(self, client: int, ran: Iterable[TaskId]) -> None:
        """Note what the client ran. Of two that claim a task the more caught up one is believed, then the first."""
        owner = self.owner
        for task in map(self.numbers.get, ran):
            if task is None:
                continue
            if owner[task] == NOBODY or self.rank(task, client) < self.rank(task, owner[task]):
                owner[task] = client

    def ready(self, lag: int) -> bool:
        """Whether a copy with this lag may be run at once, as ``lags.caught_up``."""
        return lag == RUNNING_OFFSET_SUM or 0 <= lag <= self.acceptable or self.acceptable >= UNBOUNDED_LAG

    def rank_of(self, lag: int) -> int:
        """0: caught up. 1: position unknown (-3), which Kafka sorts before all that are known. Else the lag plus 1."""
        return 0 if -1 <= lag <= self.acceptable or self.ready(lag) else max(lag + 1, 1)

    def rank(self, task: int, client: int) -> int:
        """How far from caught up the client is, as ``rank_of``."""
        lag = self.told[task].get(client)
        return self.cold[task] if lag is None else self.rank_of(lag)

    def restore(self, task: int, client: int) -> int:
        """Return the offsets of the task that the client has to restore, as ``restore_of`` counts them."""
        lag = self.told[task].get(client)
        return self.cold_restore[task] if lag is None else self.restore_of(lag)

    def least_rank(self, task: int) -> int:
        ranks = [self.rank_of(lag) for lag in self.told[task].values()]
        if len(ranks) < len(self.clients):
            ranks.append(self.cold[task])
        return min(ranks)

    def may_run(self, task: int, client: int) -> bool:
        """Whether the client is among the most caught-up ones."""
        if self.told[task].get(client) == RUNNING_OFFSET_SUM or not self.told[task]:
            return True
        mine = self.rank(task, client)
        return mine == 0 or mine == self.least_rank(task)

    def most_caught_up(self, task: int) -> list[int] | None:
        """The clients of least rank, in order; ``None``: all of them."""
        told, least = self.told[task], self.least_rank(task)
        ranks = {client: self.rank_of(lag) for client, lag in told.items()}
        if len(told) == len(self.clients) or self.cold[task] > least:
            best = sorted(client for client, mine in ranks.items() if mine == least)
            return None if len(best) == len(self.clients) else best
        worse = {client for client, mine in ranks.items() if mine > least}
        return [client for client in range(len(self.clients)) if client not in worse] if worse else None

    def with_copies(self, task: int) -> list[int]:
        """Return the clients that have less to restore than a client without a copy; none if all clients have."""
        cold = self.cold_restore[task]
        clients = [client for client, lag in self.told[task].items() if self.restore_of(lag) < cold]
        return clients if len(clients) < len(self.clients) else []

    def holders(self, task: int, without: int) -> list[tuple[int, int, int]]:
        """(rank, lag, client) of everybody with a copy that is worth something; who runs it has the least lag."""
        rank_of, restore_of, useless = self.rank_of, self.restore_of, max(self.cold_restore[task], 1)
        return [
            (rank_of(lag), lag, client)
            for client, lag in self.told[task].items()
            if client != without and restore_of(lag) < useless
        ]


def offsets_to_restore(lag: int) -> int:
    """Return the number of offsets that a copy with this lag lacks.

    An unknown position counts 1: less than every copy that is known to lack more.
    """
    return max(lag, lag == UNKNOWN_OFFSET_SUM)


def _all_lags(tasks: Iterable[TaskId], lags: Mapping[TaskId, int]) -> list[int]:
    """The lag of each task. Raises ``ConfigError``, in the words of ``LagTable``."""
    found = []
    for task in tasks:
        lag = lags.get(task)
        if lag is None:
            raise ConfigError(f"lags have no entry for stateful task {task}; every stateful task needs one")
        found.append(lag)
    return found
