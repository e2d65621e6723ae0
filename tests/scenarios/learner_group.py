"""The members of the learner assignor's seed between rebalances, as transcripts describe them.

    members S1[T1, T2], S2[T3]      a stable group; every member has a number
    new member S4                   it will join at the next rebalance
    member gone S1                  it will not join
    ready S4 T1                     the learner has learned the task
    members join                    a rebalance begins: learned tasks are given up, and all members report their marks
    leader assigns                  decide and adopt

The last two take the seed's table as input and answer with the lines that differ. Its ``//`` remarks do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    LearnerMarks,
    LearnerPlan,
    TaskLags,
    learn,
    revoke_being_learned,
)
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from tests.scenarios.group import number, read_task, write_task

END = 50_000
"""Offsets in every changelog: a learner that is not ready lags far behind."""


class LearnerGroup:
    """Each member's assignment, the tasks that others learn from it, and the learners that are ready."""

    def __init__(self) -> None:
        self.marks: dict[str, LearnerMarks] = {}
        self.being_learned: dict[str, frozenset[TaskId]] = {}
        self.ready: set[tuple[str, TaskId]] = set()
        self.tasks: frozenset[TaskId] = frozenset()
        self.decided: LearnerPlan | None = None

    def commands(self) -> dict[str, Callable[[list[str], list[str]], list[str]]]:
        return {
            "members join": lambda _, given: differing(given, self.join()),
            "leader assigns": lambda _, given: differing(given, self.assign()),
            "members": lambda words, _: self.start(" ".join(words)),
            "new member": lambda words, _: self.enter(*words),
            "member gone": lambda words, _: self.leave(*words),
            "ready": lambda words, _: self.learned(*words),
        }

    def start(self, text: str) -> list[str]:
        """``S1[T1, T2], S2[T3]``."""
        owned = {name: frozenset(map(read_task, re.findall(r"T\d+", tasks))) for name, tasks in MEMBER.findall(text)}
        self.marks = {name: LearnerMarks(tasks) for name, tasks in owned.items()}
        self.being_learned, self.ready = {}, set()
        self.tasks = frozenset().union(*owned.values())
        return []

    def enter(self, name: str) -> list[str]:
        self.marks[name] = LearnerMarks()
        return []

    def leave(self, name: str) -> list[str]:
        del self.marks[name]
        return []

    def learned(self, name: str, task: str) -> list[str]:
        self.ready.add((name, read_task(task)))
        return []

    def join(self) -> list[str]:
        for name, marks in self.marks.items():
            self.marks[name] = revoke_being_learned(marks, self.being_learned.get(name, frozenset()))
        return self.table()

    def assign(self) -> list[str]:
        process_of = {name: number(name) for name in self.marks}
        clients = tuple(self.client(name, process) for name, process in process_of.items())
        joined = {process: self.marks[name] for name, process in process_of.items()}
        self.decided = learn(Cluster(clients, self.tasks), AssignConfig(), joined)
        self.marks = {name: self.decided.marks[process] for name, process in process_of.items()}
        self.being_learned = {name: self.decided.being_learned[process] for name, process in process_of.items()}
        return self.table()

    def client(self, name: str, process: UUID) -> Client:
        """Running: -2. Just given up, or learned: all of it. Being learned here: a little."""
        marks = self.marks[name]
        sums = dict.fromkeys(marks.learning, 100) | dict.fromkeys(marks.revoked, END)
        sums |= {task: END for learner, task in self.ready if learner == name}
        sums |= dict.fromkeys(marks.assigned, RUNNING_OFFSET_SUM)
        lags = TaskLags(dict.fromkeys(self.tasks, END), sums)
        return Client(process, 1, marks.assigned, frozenset(sums) - marks.assigned, lags)

    def table(self) -> list[str]:
        return [
            f"{name}{TASK.sub(lambda match: write_task(TaskId.parse(match.group())), str(marks))}"
            for name, marks in self.marks.items()
        ]


MEMBER = re.compile(r"(\w+)\[([^\]]*)\]")
TASK = re.compile(r"\d+_\d+")


def differing(given: list[str], computed: list[str]) -> list[str]:
    theirs = [line.partition("//")[0].strip() for line in given]
    left_out = [
        f"not here: {line}"
        for line in theirs
        if line.partition("(")[0] not in {other.partition("(")[0] for other in computed}
    ]
    return [f"here: {line}" for line in computed if line not in theirs] + left_out or ["the same"]
