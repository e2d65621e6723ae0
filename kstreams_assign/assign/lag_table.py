"""Lag of every client on every stateful task, in the numbers of the board.

Kept sparse: per task the clients that told a lag, and one lag for the rest. A group of 200 processes and 20,000 tasks has
four million lags, of which a few ten thousand were told.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.lags import TaskLags, caught_up
from kstreams_assign.assign.values import Client
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId


class LagTable:
    """Answers who is caught up and who is warmest. Raises ``ConfigError`` when a client lacks a lag."""

    def __init__(self, board: Board, acceptable_recovery_lag: int) -> None:
        self.acceptable = acceptable_recovery_lag
        self.clients = range(len(board.clients))
        self.told: list[dict[int, int]] = [{} for _ in board.tasks]
        self.untold = [0] * len(board.tasks)
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
        found = {client for client, lag in self.told[task].items() if caught_up(lag, self.acceptable)}
        if caught_up(self.untold[task], self.acceptable):
            found.update(client for client in self.clients if client not in self.told[task])
        return found

    def is_colder(self, task: int, client: int) -> bool:
        """Whether the client is not caught up while another one is further."""
        told = self.told[task]
        lag = told.get(client, self.untold[task])
        if caught_up(lag, self.acceptable):
            return False
        return min(told.values(), default=lag) < lag or (len(told) < len(self.clients) and self.untold[task] < lag)

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
