"""What every process ran and holds, in small integers: the table from which ``least_movement`` plans.

Clients are numbered in the order of process ids, tasks in the order of task ids, stateful ones first. Lags are kept sparse: per
task what clients told, and one lag for all others. Reading only; no decision lives here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.assign.lags import UNBOUNDED_LAG, TaskLags
from kstreams_assign.assign.values import Client, Cluster
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, process_order

NOBODY = -1


class Holdings:
    """Previous owners and lags. Raises ``ConfigError`` when a client lacks the lag of a stateful task.

    ``told[task]`` maps client -> lag where that is not ``untold[task]``, the lag of everybody else; stateless tasks are told by
    nobody and their lag is 0. ``owner[task]`` ran the task before, or is ``NOBODY``.
    """

    def __init__(self, cluster: Cluster, acceptable_recovery_lag: int) -> None:
        self.clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.capacity = [client.capacity for client in self.clients]
        self.stateful = len(cluster.stateful)
        self.tasks = sorted_tasks(cluster.stateful) + (sorted_tasks(cluster.stateless) if cluster.stateless else [])
        self.acceptable = acceptable_recovery_lag
        self.numbers = {task: number for number, task in enumerate(self.tasks)}
        self.told: list[dict[int, int]] = [{} for _ in self.tasks]
        self.untold = self._read_lags()
        self.owner = [NOBODY] * len(self.tasks)
        for number, client in enumerate(self.clients):
            self._claim(number, client)

    def _read_lags(self) -> list[int]:
        """Fill ``told``; answer what everybody else's lag is: the end offset sums, or the largest lag there is."""
        shared = next((one.lags.end_offset_sums for one in self.clients if isinstance(one.lags, TaskLags)), None)
        plain = []
        for number, client in enumerate(self.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._read_told(number, client.lags.told)
            else:
                plain.append((number, _all_lags(self.tasks[: self.stateful], client.lags)))
        untold = [max(lags) for lags in zip(*(lags for _, lags in plain), strict=True)] if plain else []
        if shared is not None:
            untold = _all_lags(self.tasks[: self.stateful], shared)
        for number, lags in plain:
            for told, lag, others in zip(self.told, lags, untold, strict=False):
                if lag != others:
                    told[number] = lag
        return (untold or [0] * self.stateful) + [0] * (len(self.tasks) - self.stateful)

    def _read_told(self, client: int, lags: Mapping[TaskId, int]) -> None:
        numbers, told, stateful = self.numbers, self.told, self.stateful
        for task, lag in lags.items():
            number = numbers.get(task, stateful)
            if number < stateful:
                told[number][client] = lag

    def _claim(self, number: int, client: Client) -> None:
        """Note what the client ran. Of two that claim a task the more caught up one is believed, then the first."""
        numbers, owner = self.numbers, self.owner
        for task in client.prev_active:
            mine = numbers.get(task)
            if mine is None:
                continue
            rival = owner[mine]
            if rival == NOBODY or self.rank(mine, number) < self.rank(mine, rival):
                owner[mine] = number

    def ready(self, lag: int) -> bool:
        """Whether a copy with this lag may be run at once, as ``lags.caught_up``."""
        return lag == RUNNING_OFFSET_SUM or 0 <= lag <= self.acceptable or self.acceptable >= UNBOUNDED_LAG

    def rank(self, task: int, client: int) -> int:
        """How far from caught up, as ``rank_of``."""
        return self.rank_of(self.told[task].get(client, self.untold[task]))

    def rank_of(self, lag: int) -> int:
        """0: caught up. 1: position unknown (-3), which Kafka sorts before all that are known. Else the lag plus 1."""
        return 0 if self.ready(lag) else max(lag + 1, 1)

    def may_run(self, task: int, client: int) -> bool:
        """Whether the client is among the most caught-up ones."""
        if self.ready(self.told[task].get(client, self.untold[task])):
            return True
        best = self.most_caught_up(task)
        return best is None or client in best

    def most_caught_up(self, task: int) -> list[int] | None:
        """The clients of least rank, in order; ``None``: all of them."""
        ranks = {client: self.rank_of(lag) for client, lag in self.told[task].items()}
        others = self.rank_of(self.untold[task])
        least = min(ranks.values(), default=others)
        if len(ranks) < len(self.clients):
            least = min(least, others)
        if others == least:
            best = [client for client in range(len(self.clients)) if ranks.get(client, others) == least]
            return None if len(best) == len(self.clients) else best
        return sorted(client for client, mine in ranks.items() if mine == least)

    def holders(self, task: int, without: int) -> list[tuple[int, int, int]]:
        """(rank, lag, client) of everybody with a copy that is worth something, best first."""
        useless = max(self.rank_of(self.untold[task]), 1)
        ranked = [(self.rank_of(lag), lag, client) for client, lag in self.told[task].items() if client != without]
        return sorted(copy for copy in ranked if copy[0] < useless)


def _all_lags(tasks: Iterable[TaskId], lags: Mapping[TaskId, int]) -> list[int]:
    """The lag of each task. Raises ``ConfigError``, in the words of ``LagTable``."""
    found = []
    for task in tasks:
        lag = lags.get(task)
        if lag is None:
            raise ConfigError(f"lags have no entry for stateful task {task}; every stateful task needs one")
        found.append(lag)
    return found
