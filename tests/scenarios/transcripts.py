"""Runs a transcript: what happens to a group, told step by step in a text file that can be rewritten.

A file opens with prose. A step is a command line, lines of input, ``----``, and what is answered, up to an empty line:

    group standbys=1 acceptable_lag=100 end=1000     instances and what they hold: "I1: active T1 T3, standby T2@500"
    join I3 threads=2                                a new instance without any state
    leave I1                                         it is gone, with all it held
    caught up I3 [T4]                                its standbys and warm-ups have read to the end
    assign high_availability                         decide and adopt; answers the new table

``T2@500`` lags 500 offsets behind; without ``@`` a copy has caught up. What is neither indented nor a step is prose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.assign import (
    ASSIGNORS,
    AssignConfig,
    Client,
    Cluster,
    Placement,
    Plan,
    TaskLags,
    check,
    owner_changes,
)
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

RULE = "----"


@dataclass
class Instance:
    """One process: what it runs, and how far behind its other copies are."""

    threads: int = 1
    active: set[TaskId] = field(default_factory=set)
    lags: dict[TaskId, int] = field(default_factory=dict)


@dataclass
class Step:
    """A command with its input and the answer that the file expects."""

    command: str
    given: list[str]
    expected: list[str]


def rerun(text: str) -> str:
    """The transcript with every answer as it is now."""
    group = Group()
    lines: list[str] = []
    for part in parts(text):
        if isinstance(part, str):
            lines.append(part)
        else:
            lines += [part.command, *part.given, RULE, *group.answer(part)]
    return "\n".join(lines) + "\n"


def parts(text: str) -> Iterator[str | Step]:
    """Lines of prose, and steps."""
    lines = text.splitlines()
    while lines:
        block = lines[: lines.index("")] if "" in lines else lines
        if RULE in block:
            rule = block.index(RULE)
            yield Step(block[0], block[1:rule], block[rule + 1 :])
        else:
            yield from block
        if len(block) < len(lines):
            yield ""
        lines = lines[len(block) + 1 :]


class Group:
    """The group as it stands between two steps."""

    def __init__(self) -> None:
        self.instances: dict[str, Instance] = {}
        self.config = AssignConfig()
        self.end: dict[TaskId, int] = {}

    def answer(self, step: Step) -> list[str]:
        words = step.command.split()
        commands: dict[str, Callable[[list[str], list[str]], list[str]]] = {
            "group": self.group,
            "join": self.join,
            "leave": self.leave,
            "caught": self.caught_up,
            "assign": self.assign,
        }
        return commands[words[0]](words[1:], step.given)

    def group(self, words: list[str], given: list[str]) -> list[str]:
        settings = {key: int(value) for key, value in (word.split("=") for word in words)}
        self.config = AssignConfig(
            acceptable_recovery_lag=settings.get("acceptable_lag", 10_000),
            max_warmup_replicas=settings.get("warmups", 2),
            num_standby_replicas=settings.get("standbys", 0),
        )
        self.instances = dict(read_instance(line) for line in given)
        tasks = {task for instance in self.instances.values() for task in (*instance.active, *instance.lags)}
        self.end = dict.fromkeys(tasks, settings.get("end", 100_000))
        return []

    def join(self, words: list[str], _: list[str]) -> list[str]:
        threads = int(words[1].removeprefix("threads=")) if len(words) > 1 else 1
        self.instances[words[0]] = Instance(threads)
        return []

    def leave(self, words: list[str], _: list[str]) -> list[str]:
        del self.instances[words[0]]
        return []

    def caught_up(self, words: list[str], _: list[str]) -> list[str]:
        """``caught up I3 [T4]``."""
        lags = self.instances[words[1]].lags
        for task in [read_task(word) for word in words[2:]] or list(lags):
            lags[task] = 0
        return []

    def assign(self, words: list[str], _: list[str]) -> list[str]:
        cluster = self.cluster()
        plan = ASSIGNORS[words[0]](cluster, self.config)
        before = {task: number(name) for name, instance in self.instances.items() for task in instance.active}
        changed, adopted = owner_changes(before, plan.owners, cluster.capacities)
        self.adopt(plan)
        notes = [f"{write_task(task)} moves to {write(plan.owners[task])}" for task in changed]
        notes += [f"{write_task(task)} is adopted by {write(plan.owners[task])}" for task in adopted]
        notes.append("a probing rebalance follows" if plan.probing else "at rest")
        return [*table(plan), *notes, *check(cluster, self.config, plan)]

    def cluster(self) -> Cluster:
        clients = []
        for name, instance in self.instances.items():
            sums = {task: self.end[task] - lag for task, lag in instance.lags.items()}
            sums |= dict.fromkeys(instance.active, RUNNING_OFFSET_SUM)
            lags = TaskLags(self.end, sums)
            clients.append(
                Client(number(name), instance.threads, frozenset(instance.active), frozenset(instance.lags), lags)
            )
        return Cluster(tuple(clients), frozenset(self.end))

    def adopt(self, plan: Plan) -> None:
        """Everyone has what the plan says; copies are as far as they were."""
        for name, instance in self.instances.items():
            placed = plan.placements[number(name)]
            had = instance.lags | dict.fromkeys(instance.active, 0)
            instance.active = set(placed.active)
            instance.lags = {task: had.get(task, self.end[task]) for task in placed.standby | placed.warmup}


def table(plan: Plan) -> list[str]:
    """Roles by instances, as the KIP draws them."""
    names = {write(process): placed for process, placed in sorted(plan.placements.items())}
    rows = [["", *names]]
    kinds: list[tuple[str, Callable[[Placement], frozenset[TaskId]]]] = [
        ("active", lambda placed: placed.active),
        ("standby", lambda placed: placed.standby),
        ("warm-up", lambda placed: placed.warmup),
    ]
    for kind, tasks_of in kinds:
        cells = [", ".join(map(write_task, sorted(tasks_of(placed)))) for placed in names.values()]
        if any(cells):
            rows.append([kind, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def read_instance(line: str) -> tuple[str, Instance]:
    """``I1: active T1 T3, standby T2@500``."""
    name, _, holdings = line.partition(":")
    instance = Instance()
    for part in holdings.split(","):
        kind, *tasks = part.split() or ["active"]
        if kind == "active":
            instance.active |= {read_task(task) for task in tasks}
        else:
            instance.lags |= {read_task(task.partition("@")[0]): int(task.partition("@")[2] or 0) for task in tasks}
    return name, instance


def read_task(text: str) -> TaskId:
    """``T3`` of the KIP's tables is partition 3 of the only subtopology."""
    return TaskId(0, int(text.removeprefix("T")))


def write_task(task: TaskId) -> str:
    return f"T{task.partition}"


def number(name: str) -> UUID:
    """``I2`` -> the process id 2: instances sort by their numbers."""
    return UUID(int=int(name.removeprefix("I")))


def write(process: UUID) -> str:
    return f"I{process.int}"
