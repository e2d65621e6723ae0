"""Random assignment problems of many shapes, as requests of the peer. The same ``Random`` gives the same problems."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

Json = dict[str, Any]

RUNNING, UNKNOWN = -2, -3
TOPOLOGIES = ("b__", "a__", "words__", "\U0001f600__", "\ufffd__")


def assign_problem(random: Random, clients_max: int = 12, tasks_max: int = 60) -> Json:
    """Return an ``assign`` request for ``high_availability``: usually a group in the middle of its life."""
    stateful, stateless = task_lists(random, tasks_max)
    end = {task: end_sum(random) for task in stateful}
    config = {
        "acceptable_recovery_lag": random.choice([0, 10, 100, 1000, 10_000, 2**63 - 1]),
        "max_warmup_replicas": random.choice([1, 1, 2, 2, 3, 8]),
        "num_standby_replicas": random.choice([0, 0, 1, 1, 2, 3]),
    }
    keys = random.sample(["zone", "cluster", "rack"], random.choice([0, 0, 0, 1, 2, 3]))
    if keys and random.random() < 0.8:
        config["rack_aware_assignment_tags"] = random.sample(keys, random.randint(1, len(keys)))
    clients = group(random, random.randint(1, clients_max), keys)
    share_state(random, clients, stateful, stateless, end, config)
    if random.random() < 0.1:
        to_lag_form(clients, end)
        return request(config, stateful, stateless, clients)
    return request(config, stateful, stateless, clients) | {"task_end_offset_sums": end}


def tagged_problem(random: Random, clients_max: int = 12, tasks_max: int = 60) -> Json:
    """Return the same, always with standbys to be spread over client tags (KIP-708)."""
    while True:
        problem = assign_problem(random, clients_max, tasks_max)
        if problem["config"].get("rack_aware_assignment_tags") and problem["config"]["num_standby_replicas"]:
            return problem


def racked_problem(random: Random, clients_max: int = 9, tasks_max: int = 40) -> Json:
    """Return the same, with racks of processes and partitions (KIP-925), sometimes with an unknown rack."""
    problem = assign_problem(random, clients_max, tasks_max)
    config = problem["config"]
    config["rack_aware_assignment_strategy"] = random.choice(["none", *["min_traffic", "balance_subtopology"] * 4])
    for key in ("traffic_cost", "non_overlap_cost"):
        if random.random() < 0.3:
            config[f"rack_aware_assignment_{key}"] = random.choice([0, 1, 1, 3, 10, 25])
    racks = ["a", "b", "c", "d", "e"][: random.choice([1, 2, 3, 3, 5])]
    lost = 0.003 if random.random() < 0.2 else 0
    for client in problem["clients"]:
        client["rack"] = None if random.random() < lost * 10 else random.choice(racks)
        if random.random() < 0.1:
            client["consumer_racks"] = [client["rack"]] * random.randint(1, 2) + ["b"] * (random.random() < lost * 50)
    stateful = problem["stateful_tasks"]
    problem["partition_racks"] = {
        "source": partition_racks(random, [*stateful, *problem["stateless_tasks"]], racks, lost),
        "changelog": partition_racks(random, stateful, racks, lost),
    }
    return problem


def partition_racks(random: Random, tasks: list[str], racks: list[str], lost: float) -> Json:
    """Return the racks of the replicas, by partition of each task.

    All tasks of a subtopology have the same number of topics.
    """
    topics = {task.rpartition("_")[0]: random.choice([1, 1, 2, 3]) for task in tasks}
    factor = random.randint(1, len(racks))
    return {
        task: [
            [None if random.random() < lost else rack for rack in random.sample(racks, factor)]
            for _ in range(topics[task.rpartition("_")[0]])
        ]
        for task in tasks
    }


def request(config: Json, stateful: list[str], stateless: list[str], clients: list[Json]) -> Json:
    return {
        "assignor": "high_availability",
        "config": config,
        "stateful_tasks": stateful,
        "stateless_tasks": stateless,
        "clients": clients,
    }


def task_lists(random: Random, tasks_max: int) -> tuple[list[str], list[str]]:
    """Return some subtopologies with some partitions each; most of them have state."""
    stateful: list[str] = []
    stateless: list[str] = []
    room = random.randint(0, tasks_max)
    named = random.random() < 0.05
    for subtopology in range(random.randint(1, 6)):
        partitions = min(room, random.choice([1, 2, 3, 5, 8, 13, 30]))
        room -= partitions
        chosen = stateless if random.random() < 0.25 else stateful
        topology = random.choice(TOPOLOGIES) if named else ""
        chosen += [f"{topology}{subtopology}_{partition}" for partition in range(partitions)]
    return stateful, stateless


def end_sum(random: Random) -> int:
    return random.choice([0, random.randint(1, 200), random.randint(1, 20_000), random.randint(1, 1_000_000)])


def group(random: Random, size: int, keys: list[str]) -> list[Json]:
    """Return processes with random ids (some with a set sign bit) and threads; tags if there are keys."""
    even = random.choice([1, 1, 2, 3, 0, 0])
    values = random.randint(1, 4)
    return [
        {
            "process_id": str(UUID(int=random.getrandbits(128)))
            if random.random() < 0.7
            else str(UUID(int=number + 1)),
            "threads": even or random.randint(1, 5),
            "tags": {key: f"{key}-{random.randrange(values)}" for key in keys if random.random() < 0.9},
        }
        for number in range(size)
    ]


def share_state(
    random: Random, clients: list[Json], stateful: list[str], stateless: list[str], end: Json, config: Json
) -> None:
    """Give some processes the tasks they run and the state they hold; others are new or have stale state."""
    old = random.sample(clients, random.randint(0, len(clients)))
    copies = random.choice([0, 1, config["num_standby_replicas"], 3])
    for client in clients:
        client["task_offset_sums"] = {}
        client["prev_active"] = []
    dealt = random.random() < 0.4
    for first, task in enumerate(stateful):
        if dealt:
            at_rest(old, first, task, end[task], copies)
        else:
            anywhere(random, old, task, end[task], copies)
    for task in stateless:
        if old:
            random.choice(old)["prev_active"].append(task)


def at_rest(old: list[Json], first: int, task: str, end: int, copies: int) -> None:
    """Deal tasks in turn, with every replica caught up: the usual state when members join and leave."""
    for number in range(min(len(old), copies + 1)):
        old[(first + number) % len(old)]["task_offset_sums"][task] = end if number else RUNNING


def anywhere(random: Random, old: list[Json], task: str, end: int, copies: int) -> None:
    for number, client in enumerate(random.sample(old, min(len(old), copies + 1))):
        running = number == 0 and random.random() < 0.8
        client["task_offset_sums"][task] = RUNNING if running else some_sum(random, end)


def some_sum(random: Random, end: int) -> int:
    """Return a sum near the end, anywhere, unknown, or beyond the end."""
    near = max(0, end - random.choice([0, 1, 9, 99, 101, 5_000]))
    return random.choice([end, near, near, near, random.randint(0, end), random.randint(0, end), UNKNOWN, end + 7])


def to_lag_form(clients: list[Json], end: Json) -> None:
    """Convert to lags, including unknown and running ones."""
    for client in clients:
        sums = client.pop("task_offset_sums")
        client["prev_standby"] = [task for task in sums if sums[task] != RUNNING]
        client["prev_active"] += [task for task in sums if sums[task] == RUNNING]
        client["task_lags"] = {task: plain_lag(sums.get(task, 0), total) for task, total in end.items()}


def plain_lag(reported: int, total: int) -> int:
    return reported if reported < 0 else total if reported > total else total - reported


def threads_problem(random: Random, consumers_max: int = 6, tasks_max: int = 40) -> Json:
    """One ``assign-threads`` request."""
    stateful, stateless = task_lists(random, tasks_max)
    end = {task: end_sum(random) for task in stateful}
    random.shuffle(stateful)
    cut = random.randint(0, len(stateful))
    topology = "deleted__" if any("__" in task for task in stateful) else ""
    seen = stateful + [f"{topology}9_{partition}" for partition in range(random.choice([0, 0, 3]))]
    return {
        "active": stateful[:cut] + stateless,
        "standby": stateful[cut : random.randint(cut, len(stateful))],
        "task_end_offset_sums": end,
        "consumers": [
            {
                "id": f"{random.choice(['a', 'b', 'B', 'é'])}-{random.getrandbits(32):x}",
                "task_offset_sums": {
                    task: RUNNING if random.random() < 0.4 else some_sum(random, end.get(task, 50))
                    for task in random.sample(seen, random.randint(0, len(seen)))
                },
            }
            for _ in range(random.randint(1, consumers_max))
        ],
    }
