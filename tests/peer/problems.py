"""Random requests for every sub-command of a peer. The same ``Random`` gives the same requests.

Assignment problems come from ``tests.assign.problems``; here they also get the form with several consumers, and
``explain``.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from tests.assign.problems import assign_problem, racked_problem, threads_problem

Json = dict[str, Any]

TEXTS = (
    "",
    "a",
    "zone",
    "eu-1",
    "host.example.org:8080",
    "é\u07ff",
    "\u4e16界",
    "\U0001d11e",
    "nul\0",
    "a_b",
    "long" * 9,
)
TOPOLOGIES = ("top", "a_b", "\u4e16", "\U0001d11e", "T", "t2")
HOSTS = ("a", "b.example.org", "\u4e16\0", "\U0001d11e", "\uffee")
TOPICS = ("orders", "clicks", "z", "\U0001d11e\0", "\uffee", "app-store-changelog")


def assign(random: Random, assignor: str = "high_availability") -> Json:
    problem = (racked_problem if random.random() < 0.3 else assign_problem)(random) | {"assignor": assignor}
    if "task_end_offset_sums" in problem and random.random() < 0.3:
        problem["clients"] = [over_consumers(random, client) for client in problem["clients"]]
    if random.random() < 0.3:
        problem["explain"] = True
    return problem


def over_consumers(random: Random, client: Json) -> Json:
    """Split the state over several consumers of the process; sometimes two of them report the same task."""
    consumers: list[Json] = [
        {"id": f"c-{n}", "prev_active": [], "task_offset_sums": {}} for n in range(client["threads"])
    ]
    for task, total in client["task_offset_sums"].items():
        for reporter in random.sample(consumers, min(len(consumers), random.choice([1, 1, 1, 2]))):
            reporter["task_offset_sums"][task] = total if random.random() < 0.8 else random.choice([-3, 0, total // 2])
    for task in client["prev_active"]:
        random.choice(consumers)["prev_active"].append(task)
    kept = {key: client[key] for key in ("process_id", "tags", "rack", "consumer_racks") if key in client}
    return kept | {"consumers": consumers} | ({"threads": client["threads"]} if random.random() < 0.3 else {})


def assign_threads(random: Random) -> Json:
    return threads_problem(random)


def subscription(random: Random) -> Json:
    """Return a request of ``encode-subscription``, sometimes an invalid one."""
    version = random.randint(1, 11)
    latest = random.choice([version, 11, 11, 12, 99, -1 if version < 3 or random.random() < 0.1 else 11])
    return {
        "version": version if random.random() < 0.97 else random.choice([-1, 0, 12]),
        "latest_supported_version": latest,
        "process_id": str(UUID(int=random.getrandbits(128))),
        "user_end_point": random.choice([None, *TEXTS]),
        "task_offset_sums": {task: some_sum(random) for task in some_tasks(random, version)},
        "unique_field": random.randint(-128, 127),
        "error_code": random.choice([0, 0, 1, -5, 2**31 - 1]),
        "client_tags": {random.choice(TEXTS): random.choice(TEXTS) for _ in range(random.choice([0, 0, 1, 3]))},
    }


def assignment(random: Random) -> Json:
    """Return a request of ``encode-assignment``, sometimes an invalid one."""
    version = random.randint(1, 11)
    tasks = list(some_tasks(random, version))
    cut = random.randint(0, len(tasks))
    request: Json = {
        "version": version if random.random() < 0.97 else random.choice([-1, 0, 12]),
        "commonly_supported_version": random.choice([-1, version, 11, 3]),
        "active_tasks": [task for task in tasks[:cut] for _ in range(random.choice([1, 1, 2]))],
        "standby_tasks": {task: some_partitions(random) for task in tasks[cut:]},
        "partitions_by_host": some_hosts(random),
        "standby_partitions_by_host": some_hosts(random),
        "err_code": random.choice([0, 0, 2, -7]),
    }
    if random.random() < 0.5:
        request["next_rebalance_ms"] = random.choice([0, 1_700_000_000_000, -1, 2**63 - 1])
    return request


def some_tasks(random: Random, version: int) -> dict[str, None]:
    """Return distinct task ids, some of named topologies where the version carries them (seldom where it does not)."""
    named = random.random() < (0.4 if version >= 10 else 0.05)
    tasks = {}
    for _ in range(random.choice([0, 1, 2, 5, 20])):
        task = f"{random.choice([0, 0, 1, 7, 12, 2**31 - 1])}_{random.choice([random.randint(0, 30), 2**31 - 1])}"
        topology = random.choice(TOPOLOGIES) if named and random.random() < 0.7 else None
        tasks[task if topology is None else f"{topology}__{task}"] = None
    return tasks


def some_sum(random: Random) -> int:
    return random.choice([-2, -2, -3, 0, random.randint(0, 10**6), 2**63 - 1, -(2**63)])


def some_partitions(random: Random) -> list[list[Any]]:
    count = random.choice([0, 1, 2, 5])
    return [[random.choice(TOPICS), random.choice([0, 1, random.randint(0, 99), -1])] for _ in range(count)]


def some_hosts(random: Random) -> list[Json]:
    return [
        {"host": host, "port": random.choice([-1, 0, 80, 8080]), "partitions": some_partitions(random)}
        for host in random.sample(HOSTS, random.choice([0, 0, 1, 3, 5]))
    ]


def damaged(random: Random, raw: bytes) -> bytes:
    """Return the bytes, mostly unchanged, or cut, or with bytes appended."""
    kind = random.random()
    if kind < 0.6:
        return raw
    return raw[: random.randrange(len(raw))] if kind < 0.8 else raw + random.randbytes(random.randint(1, 9))
