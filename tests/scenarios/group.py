"""A group of instances between rebalances, as transcripts describe it.

    group standbys=1 acceptable_lag=100 end=1000     instances and their tasks: "I1: active T1 T3, standby T2@500"
    join I3 threads=2                                a new instance without any state
    leave I1                                         it leaves, with all its tasks
    restart I1                                       it leaves and is awaited
    return I1 500                                    it is back; its state lacks so many offsets, if any
    give up I1                                       it is awaited no longer
    caught up [I3 [T4 ..]]                           these standbys and warm-ups are at the end; without names, all
    assign high_availability                         decide and adopt; answers the new table
    propose least_movement                           decide and answer, but leave the group as it is
    kip First Rebalance                              input: a table of the KIP; answers how the last decision differs

``T2@500`` lags 500 offsets behind; without ``@`` a replica has caught up. ``T2`` has state, ``t2`` has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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
    await_assignor,
    check,
    give_back,
    owner_changes,
    previous_owners,
)
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

ROLES: dict[str, Callable[[Placement], frozenset[TaskId]]] = {
    "active": lambda placed: placed.active,
    "standby": lambda placed: placed.standby,
    "warm-up": lambda placed: placed.warmup,
}


@dataclass
class Instance:
    """One process: what it runs, and how far behind its other copies are."""

    threads: int = 1
    active: set[TaskId] = field(default_factory=set)
    lags: dict[TaskId, int] = field(default_factory=dict)


class Group:
    """The group as it stands between two steps. Commands take the words after them and lines of input."""

    def __init__(self) -> None:
        self.instances: dict[str, Instance] = {}
        self.config = AssignConfig()
        self.stateless: frozenset[TaskId] = frozenset()
        self.end: dict[TaskId, int] = {}
        self.last: dict[str, Placement] = {}
        self.awaited: dict[str, Instance] = {}
        self.returned: dict[str, Instance] = {}

    def commands(self) -> dict[str, Callable[[list[str], list[str]], list[str]]]:
        return {
            "group": self.group,
            "join": self.join,
            "leave": self.leave,
            "restart": self.restart,
            "return": self.return_,
            "give up": self.give_up,
            "caught up": self.caught_up,
            "assign": self.assign,
            "propose": self.propose,
            "kip": self.kip,
        }

    def group(self, words: list[str], given: list[str]) -> list[str]:
        settings = {key: int(value) for key, value in (word.split("=") for word in words)}
        self.config = AssignConfig(
            acceptable_recovery_lag=settings.get("acceptable_lag", 10_000),
            max_warmup_replicas=settings.get("warmups", 2),
            num_standby_replicas=settings.get("standbys", 0),
        )
        self.instances = dict(map(read_instance, given))
        tasks = {task for instance in self.instances.values() for task in (*instance.active, *instance.lags)}
        self.stateless = frozenset(task for task in tasks if task.subtopology == STATELESS)
        self.end = dict.fromkeys(tasks - self.stateless, settings.get("end", 100_000))
        return []

    def join(self, words: list[str], _: list[str]) -> list[str]:
        threads = int(words[1].removeprefix("threads=")) if len(words) > 1 else 1
        self.instances[words[0]] = Instance(threads)
        return []

    def leave(self, words: list[str], _: list[str]) -> list[str]:
        del self.instances[words[0]]
        return []

    def restart(self, words: list[str], _: list[str]) -> list[str]:
        self.awaited[words[0]] = self.instances.pop(words[0])
        return []

    def return_(self, words: list[str], _: list[str]) -> list[str]:
        was = self.returned[words[0]] = self.awaited.pop(words[0])
        behind = int(words[1]) if len(words) > 1 else 0
        held = {task: lag + behind for task, lag in {**was.lags, **dict.fromkeys(was.active, 0)}.items()}
        lags = {task: lag for task, lag in held.items() if task not in self.stateless}
        self.instances[words[0]] = Instance(was.threads, lags=lags)
        return []

    def give_up(self, words: list[str], _: list[str]) -> list[str]:
        del self.awaited[words[0]]
        return []

    def caught_up(self, words: list[str], _: list[str]) -> list[str]:
        for name in words[:1] or list(self.instances):
            lags = self.instances[name].lags
            lags.update(dict.fromkeys(map(read_task, words[1:]) if words[1:] else list(lags), 0))
        return []

    def assign(self, words: list[str], given: list[str]) -> list[str]:
        answer = self.propose(words, given)
        for name, instance in self.instances.items():
            placed = self.last[name]
            had = instance.lags | dict.fromkeys(instance.active, 0)
            instance.active = set(placed.active)
            instance.lags = {task: had.get(task, self.end[task]) for task in placed.standby | placed.warmup}
        self.returned.clear()
        return answer

    def propose(self, words: list[str], _: list[str]) -> list[str]:
        cluster = self.cluster()
        plan = await_assignor(ASSIGNORS[words[0]], list(map(self.client, self.awaited)))(cluster, self.config)
        self.last = {name: plan.placements[number(name)] for name in sorted(self.instances, key=number)}
        return [*table(self.last), *self.notes(cluster, plan), *check(cluster, self.config, plan)]

    def notes(self, cluster: Cluster, plan: Plan) -> list[str]:
        name_of = {number(name): name for name in self.instances}
        changed, adopted = owner_changes(previous_owners(cluster), plan.owners, cluster.capacities)
        notes = [f"{write_task(task)} moves to {name_of[plan.owners[task]]}" for task in changed]
        notes += [f"{write_task(task)} is adopted by {name_of[plan.owners[task]]}" for task in adopted]
        notes += [f"{write_task(task)} waits for I{process.int}" for task, process in sorted(plan.waiting.items())]
        return [*notes, "a probing rebalance follows" if plan.probing else "at rest"]

    def cluster(self) -> Cluster:
        cluster = Cluster(tuple(map(self.client, self.instances)), frozenset(self.end), self.stateless)
        ran = {number(name): frozenset(instance.active) for name, instance in self.returned.items()}
        return give_back(cluster, ran, self.config.acceptable_recovery_lag)

    def client(self, name: str) -> Client:
        instance = self.instances.get(name) or self.awaited[name]
        sums = {task: self.end[task] - lag for task, lag in instance.lags.items()}
        sums |= dict.fromkeys(instance.active - self.stateless, RUNNING_OFFSET_SUM)
        lags = TaskLags(self.end, sums)
        return Client(number(name), instance.threads, frozenset(instance.active), frozenset(instance.lags), lags)

    def kip(self, _: list[str], given: list[str]) -> list[str]:
        """The KIP tells no warm-ups from standbys, so all copies are compared as one."""
        theirs = read_table(given)
        differs = [] if list(theirs) == list(self.last) else [f"instances: here {', '.join(self.last)}"]
        for name in theirs.keys() & self.last.keys():
            computed = self.last[name]
            for role, copies in (("active", computed.active), ("standby", computed.standby | computed.warmup)):
                if theirs[name].get(role, frozenset()) != copies:
                    differs.append(f"{name} {role}: here {write_tasks(copies) or 'nothing'}")
        return sorted(differs) or ["the same"]


def table(placements: dict[str, Placement]) -> list[str]:
    """Roles by instances, as the KIP draws them; an empty role is left out."""
    rows = [["", *placements]]
    for role, tasks_of in ROLES.items():
        cells = [write_tasks(tasks_of(placed)) for placed in placements.values()]
        if role == "active" or any(cells):
            rows.append([role, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def read_table(lines: list[str]) -> dict[str, dict[str, frozenset[TaskId]]]:
    """Instance -> role -> tasks; a cell stands below the name of its instance."""
    starts = [(match.group(), match.start()) for match in re.finditer(r"\S+", lines[0])]
    ends = [start for _, start in starts[1:]] + [None]
    return {
        name: {
            line.split()[0]: frozenset(map(read_task, re.findall(r"[Tt]\d+", line[start:end]))) for line in lines[1:]
        }
        for (name, start), end in zip(starts, ends, strict=True)
    }


def read_instance(line: str) -> tuple[str, Instance]:
    """``I1: active T1 T3, standby T2@500``."""
    name, _, holdings = line.partition(":")
    instance = Instance()
    for part in filter(None, map(str.strip, holdings.split(","))):
        role, *tasks = part.split()
        if role == "active":
            instance.active |= set(map(read_task, tasks))
        elif role == "standby":
            instance.lags |= {read_task(task.partition("@")[0]): int(task.partition("@")[2] or 0) for task in tasks}
        else:
            raise ValueError(f"{role!r} in {line!r} is no role; write active or standby")
    return name, instance


STATELESS = 1
"""The subtopology of the tasks without state; the others are of subtopology 0."""


def read_task(text: str) -> TaskId:
    """``T3`` of the KIP's tables is partition 3 of a subtopology with state, ``t3`` of one without."""
    return TaskId(STATELESS if text[0] == "t" else 0, int(text[1:]))


def write_task(task: TaskId) -> str:
    return f"{'t' if task.subtopology == STATELESS else 'T'}{task.partition}"


def write_tasks(tasks: Iterable[TaskId]) -> str:
    return ", ".join(map(write_task, sorted(tasks)))


def number(name: str) -> UUID:
    """``I2`` has process id 2: instances sort by their numbers."""
    return UUID(int=int(name[1:]))
