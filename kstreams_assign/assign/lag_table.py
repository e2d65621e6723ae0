"""Lag of every client on every stateful task, in the numbers of the board.

Kept sparse: per task the clients that told a lag, and one lag for the rest. A group of 200 processes and 20,000 tasks has
four million lags, of which a few ten thousand were told.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.lags import UNBOUNDED_LAG, TaskLags
from kstreams_assign.assign.values import Client
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId


class LagTable:
    """Answers who is caught up and who is warmest. Raises ``ConfigError`` when a client lacks a lag."""

    def __init__(self, board: Board, acceptable_recovery_lag: int) -> None:
        self.acceptable = acceptable_recovery_lag
        least = -UNBOUNDED_LAG - 1 if acceptable_recovery_lag >= UNBOUNDED_LAG else 0
        self.close_enough = range(least, acceptable_recovery_lag + 1)
        self.clients = range(len(board.clients))
        self.told: list[dict[int, int]] = [{} for _ in board.tasks]
        self.untold = [0] * len(board.tasks)
        self.caught_up: list[set[int] | None] = [None] * len(board.tasks)
        sparse = [client.lags for client in board.clients if isinstance(client.lags, TaskLags)]
        shared = sparse[0].end_offset_sums if sparse else {}
        if sparse:
            self.untold = [_found(task, shared.get(task)) for task in board.tasks]
        numbers = {task: number for number, task in enumerate(board.tasks)}
        for number, client in enumerate(board.clients):
            if isinstance(client.lags, TaskLags) and client.lags.end_offset_sums is shared:
                self._add_told(number, client.lags, numbers)
            else:
                self._add_all(number, client, board.tasks)

    def _add_told(self, client: int, lags: TaskLags, numbers: dict[TaskId, int]) -> None:
        for task, lag in lags.told.items():
            number = numbers.get(task)
            if number is not None:
                self.told[number][client] = lag

    def _add_all(self, number: int, client: Client, tasks: list[TaskId]) -> None:
        for told, task in zip(self.told, tasks, strict=True):
            told[number] = _found(task, client.lags.get(task))

    def lag(self, task: int, client: int) -> int:
        return self.told[task].get(client, self.untold[task])

    def caught_up_clients(self, task: int) -> set[int]:
        """As ``lags.caught_up``; looked up once for each task."""
        found = self.caught_up[task]
        if found is None:
            told, close_enough = self.told[task], self.close_enough
            found = {client for client, lag in told.items() if lag in close_enough or lag == RUNNING_OFFSET_SUM}
            if self.untold[task] in close_enough or self.untold[task] == RUNNING_OFFSET_SUM:
                found.update(client for client in self.clients if client not in told)
            self.caught_up[task] = found
        return found

    def colder(self, task: int, clients: Iterable[int]) -> list[int]:
        """Those of the clients that are not caught up while another one is further."""
        told, untold = self.told[task], self.untold[task]
        if not told:
            return []  # all are equally far
        caught_up, least = self.caught_up_clients(task), min(told.values())
        if untold < least and len(told) < len(self.clients):
            least = untold
        return [client for client in clients if client not in caught_up and told.get(client, untold) > least]

    def warmest(self, task: int, taken: Iterable[int], before: int) -> int | None:
        """The first client in the order of (lag, client) that is not taken, if it comes before another one there."""
        told, untold = self.told[task], self.untold[task]
        found = (self.lag(task, before), before)
        for client, lag in told.items():
            if (lag, client) < found and client not in taken:
                found = (lag, client)
        if len(told) < len(self.clients) and untold <= found[0]:
            rest = (client for client in self.clients if client not in told and client not in taken)
            found = min([found, *((untold, client) for client in islice(rest, 1))])
        return found[1] if found[1] != before else None


def _found(task: TaskId, lag: int | None) -> int:
    if lag is None:
        raise ConfigError(f"lags have no entry for stateful task {task}; every stateful task needs one")
    return lag
