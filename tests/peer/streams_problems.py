"""Random streams groups for the broker's assignor, at any moment of their life. The same ``Random`` gives the same."""

from __future__ import annotations

import base64
from random import Random
from typing import Any
from uuid import UUID

Json = dict[str, Any]


def streams_group_problem(random: Random, members_max: int = 40, tasks_max: int = 120) -> Json:
    """Return a request of ``assign-streams-group``: a former target, partly gone, with members that joined since."""
    subtopologies = _subtopologies(random, tasks_max)
    tasks = [f"{name}_{n}" for name, each in subtopologies.items() for n in range(each["tasks"])]
    members = _members(random, random.randint(1, members_max if random.random() < 0.3 else 6))
    problem = {
        "subtopologies": subtopologies,
        "num_standby_replicas": random.choice([0, 0, 1, 1, 2, 3]),
        "members": members,
    }
    if random.random() < 0.85:
        _spread_former_target(random, members, tasks)
    return problem


def _subtopologies(random: Random, tasks_max: int) -> Json:
    count = random.choice([1, 1, 2, 3, 5, 12])
    return {
        str(number): {
            "tasks": random.randint(1, max(1, min(tasks_max // count, random.choice([1, 3, 8, 120])))),
            "stateful": random.random() < 0.7,
        }
        for number in range(count)
    }


def _members(random: Random, count: int) -> list[Json]:
    threads = random.choice([1, 1, 2, 4, 20])
    processes: list[str] = []
    members: list[Json] = []
    for name in dict.fromkeys(member_id(random) for _ in range(count)):
        if not processes or random.random() < 1 / threads:
            processes.append(str(UUID(int=random.getrandbits(128))))
        members.append({"member_id": name, "process_id": random.choice(processes), "active": [], "standby": []})
    return members


def member_id(random: Random) -> str:
    """Return an id as Java's or our members make it, or one that shares its hash with others."""
    kind = random.random()
    if kind < 0.6:
        return base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
    if kind < 0.8:
        return str(UUID(int=random.getrandbits(128)))
    return "".join(random.choice(["Aa", "BB"]) for _ in range(8)) + str(random.randint(0, 3))


def _spread_former_target(random: Random, members: list[Json], tasks: list[str]) -> None:
    """Give most tasks to former owners, unevenly, and standbys to others; seldom anything is odd."""
    weights = [random.choice([0, 0, 1, 1, 1, 3]) for _ in members]
    if not any(weights):
        weights[0] = 1
    lost = random.choice([0, 0, 0.1, 0.5])
    for task in tasks:
        if random.random() >= lost:
            random.choices(members, weights)[0]["active"].append(task)
        for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
            random.choices(members, weights)[0]["standby"].append(task)
    for member in members:
        member["standby"] = sorted(set(member["standby"]) - set(member["active"]))
    if random.random() < 0.1:
        random.choice(members)["active"].append("0_999")
