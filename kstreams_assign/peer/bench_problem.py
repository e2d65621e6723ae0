"""The problems that assignors are timed on, the same for every peer: one stateful subtopology, all sums equal.

A case is ``TASKSxCLIENTSxTHREADSxSTANDBYS``. ``fresh``: no client holds any task. ``join``: a converged group, and one
more client. Process ids are ``00000000-0000-0000-0000-00000000000n`` from 0; the new client is the last. Pure: the
clock is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Assignor, Client, Cluster, TaskLags, find_previous_tasks
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

CASES = ("6000x2x1x1", "1000x1000x1x1", "1000x100x1x50", "1000x10x1000x1", "20000x200x4x1")
STATES = ("fresh", "join")
END_OFFSET_SUM = 100_000


class Size(NamedTuple):
    """The size of a problem."""

    tasks: int
    clients: int
    threads: int
    standbys: int

    @classmethod
    def parse(cls, case: str) -> Size:
        """Parse a case such as ``6000x2x1x1``. Raises ``ConfigError``."""
        parts = case.split("x")
        if len(parts) != 4 or not all(part.isdecimal() for part in parts) or not all(map(int, parts[:3])):
            raise ConfigError(f"case is {case!r}; it must be TASKSxCLIENTSxTHREADSxSTANDBYS, as in {CASES[0]}")
        return cls(*map(int, parts))


class Held(NamedTuple):
    """The tasks that one client runs, and those of which it has a replica."""

    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


class Problem:
    """One problem, from which an equal cluster is built for each call."""

    def __init__(self, size: Size, held: Sequence[Held] = ()) -> None:
        """Read ``held``, the tasks of each client; if it is not empty, one more client without tasks is added."""
        self.stateful = frozenset(TaskId(0, partition) for partition in range(size.tasks))
        self.ends = dict.fromkeys(sorted(self.stateful), END_OFFSET_SUM)
        self.config = AssignConfig(num_standby_replicas=size.standbys)
        self.threads = size.threads
        self.held = [*held, Held()] if held else [Held()] * size.clients

    def cluster(self) -> Cluster:
        return Cluster(tuple(self._client(number, held) for number, held in enumerate(self.held)), self.stateful)

    def _client(self, number: int, held: Held) -> Client:
        sums = dict.fromkeys(held.active, RUNNING_OFFSET_SUM) | dict.fromkeys(held.standby, END_OFFSET_SUM)
        active, standby = find_previous_tasks((), sums)
        return Client(UUID(int=number), self.threads, active, standby, TaskLags(self.ends, sums))


def converged(size: Size, assignor: Assignor) -> list[Held]:
    """Return what each client holds once the assignor's plan for a fresh start has been carried out."""
    problem = Problem(size)
    plan = assignor(problem.cluster(), problem.config)
    placed = (plan.placements[UUID(int=number)] for number in range(size.clients))
    return [
        Held(tuple(sorted(placement.active)), tuple(sorted(placement.standby | placement.warmup)))
        for placement in placed
    ]


def written(held: Sequence[Held]) -> str:
    """Return one line per client, ``ACTIVE ...|STANDBY ...`` by partition number, for the next process."""
    return "".join(f"{_numbers(held_by_client.active)}|{_numbers(held_by_client.standby)}\n" for held_by_client in held)


def read(text: str) -> list[Held]:
    halves = (line.split("|") for line in text.splitlines())
    return [Held(_tasks(active), _tasks(standby)) for active, standby in halves]


def _numbers(tasks: Sequence[TaskId]) -> str:
    return " ".join(str(task.partition) for task in tasks)


def _tasks(numbers: str) -> tuple[TaskId, ...]:
    return tuple(TaskId(0, int(number)) for number in numbers.split())
