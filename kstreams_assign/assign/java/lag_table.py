"""The lag of every client on every stateful task, by the numbers of the table.

Lags are sparse: per task the clients that reported a lag, and one lag for the rest. A group of 200 processes and
20,000 tasks has four million lags, of which a few ten thousand were reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.lags import UNBOUNDED_LAG, TaskLags
from kstreams_assign.assign.values import Client
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId


class LagTable:
    """Answers which clients are caught up and which is warmest. Raises ``ConfigError`` when a client lacks a lag."""

    def __init__(self, table: PlanTable, acceptable_recovery_lag: int) -> None:
        self.acceptable = acceptable_recovery_lag
        least = -UNBOUNDED_LAG - 1 if acceptable_recovery_lag >= UNBOUNDED_LAG else 0
        self.close_enough = range(least, acceptable_recovery_lag + 1)
        self.clients = range(len(table.clients))
        self.reported_lags: list[dict[int, int]] = [{} for _ in table.tasks]
        self.unreported_lag = [0] * len(table.tasks)
        self.caught_up: list[set[int] | None] = [None] * len(table.tasks)
        sparse = [client.lags for client in table.clients if isinstance(client.lags, TaskLags)]
        shared = sparse[0].end_offset_sums if sparse else {}
        if sparse:
            self.unreported_lag = [_require_lag(task, shared.get(task)) for task in table.tasks]
        numbers = {task: number for number, task in enumerate(table.tasks)}
        for number, client in enumerate(table.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._add_reported(number, client.lags, numbers)
            else:
                self._add_all(number, client, table.tasks)

    def _add_reported(self, client: int, lags: TaskLags, numbers: dict[TaskId, int]) -> None:
        for task, lag in lags.reported.items():
            number = numbers.get(task)
            if number is not None:
                self.reported_lags[number][client] = lag

    def _add_all(self, number: int, client: Client, tasks: list[TaskId]) -> None:
        for reported, task in zip(self.reported_lags, tasks, strict=True):
            reported[number] = _require_lag(task, client.lags.get(task))

    def lag(self, task: int, client: int) -> int:
        return self.reported_lags[task].get(client, self.unreported_lag[task])

    def caught_up_clients(self, task: int) -> set[int]:
        """Return the clients that are caught up (``lags.is_caught_up``); computed once for each task."""
        caught_up = self.caught_up[task]
        if caught_up is None:
            reported, close_enough = self.reported_lags[task], self.close_enough
            caught_up = {client for client, lag in reported.items() if lag in close_enough or lag == RUNNING_OFFSET_SUM}
            if self.unreported_lag[task] in close_enough or self.unreported_lag[task] == RUNNING_OFFSET_SUM:
                caught_up.update(client for client in self.clients if client not in reported)
            self.caught_up[task] = caught_up
        return caught_up

    def colder(self, task: int, clients: Iterable[int]) -> list[int]:
        """Return those of the clients that are not caught up while another client has a smaller lag."""
        reported, unreported = self.reported_lags[task], self.unreported_lag[task]
        if not reported:
            return []  # all lags are equal
        caught_up, least = self.caught_up_clients(task), min(reported.values())
        if unreported < least and len(reported) < len(self.clients):
            least = unreported
        return [client for client in clients if client not in caught_up and reported.get(client, unreported) > least]

    def warmest(self, task: int, taken: Iterable[int], before: int) -> int | None:
        """Return the first client by (lag, client) that is not taken, if it comes before the client ``before``."""
        reported, unreported = self.reported_lags[task], self.unreported_lag[task]
        first = (self.lag(task, before), before)
        for client, lag in reported.items():
            if (lag, client) < first and client not in taken:
                first = (lag, client)
        if len(reported) < len(self.clients) and unreported <= first[0]:
            rest = (client for client in self.clients if client not in reported and client not in taken)
            first = min([first, *((unreported, client) for client in islice(rest, 1))])
        return first[1] if first[1] != before else None


def _require_lag(task: TaskId, lag: int | None) -> int:
    if lag is None:
        raise ConfigError(f"lags have no entry for stateful task {task}; every stateful task needs one")
    return lag
