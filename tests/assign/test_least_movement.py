"""Least movement depends on the group alone: not on the order of members, and hardly on their names."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig, Client, Cluster, Plan, TaskLags, converge, least_movement
from kstreams_assign.assign.previous_state import ORPHANS_MAX
from kstreams_assign.model import TaskId, process_order
from tests.assign.jsonl import read_cluster, read_config
from tests.assign.problems import assign_problem
from tests.samples import examples

SEEDS = st.integers(0, 2**32)


def problem(seed, clients_max=8, tasks_max=40):
    request = assign_problem(Random(seed), clients_max, tasks_max)
    return read_cluster(request), read_config(request)


def shuffled(random, items):
    items = list(items)
    random.shuffle(items)
    return items


def rebuilt(random, cluster):
    """The same group from equal values that were made in another order."""
    clients = [
        Client(
            client.process_id,
            client.capacity,
            frozenset(shuffled(random, client.prev_active)),
            frozenset(shuffled(random, client.prev_standby)),
            retold(random, client.lags),
            dict(shuffled(random, client.tags.items())),
        )
        for client in shuffled(random, cluster.clients)
    ]
    stateful, stateless = (
        frozenset(shuffled(random, cluster.stateful)),
        frozenset(shuffled(random, cluster.stateless)),
    )
    return Cluster(tuple(clients), stateful, stateless)


def retold(random, lags):
    if not isinstance(lags, TaskLags):
        return dict(shuffled(random, lags.items()))
    reordered = TaskLags(lags.end_offset_sums, {})
    reordered.reported.update(shuffled(random, lags.reported.items()))
    return reordered


def renamed(cluster, names):
    clients = tuple(replace(client, process_id=names[client.process_id]) for client in cluster.clients)
    return replace(cluster, clients=clients)


@settings(max_examples=examples(150), deadline=None)
@given(seed=SEEDS)
def test_every_leader_decides_the_same_in_any_order_of_members(seed):
    cluster, config = problem(seed)
    assert least_movement(rebuilt(Random(seed), cluster), config) == least_movement(cluster, config)


@settings(max_examples=examples(100), deadline=None)
@given(seed=SEEDS)
def test_renaming_in_order_renames_the_plan(seed):
    cluster, config = problem(seed)
    random = Random(seed)
    old = sorted((client.process_id for client in cluster.clients), key=process_order)
    new = sorted((UUID(int=random.getrandbits(128)) for _ in old), key=process_order)
    names = dict(zip(old, new, strict=True))
    plan, other = least_movement(cluster, config), least_movement(renamed(cluster, names), config)
    assert other == Plan(
        {names[process]: placed for process, placed in plan.placements.items()},
        plan.probing,
        restores={task: names[process] for task, process in plan.restores.items()},
    )


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS)
def test_renaming_does_not_change_the_number_of_owner_changes(seed):
    cluster, config = problem(seed, 6, 24)
    ids = [client.process_id for client in cluster.clients]
    names = dict(zip(ids, shuffled(Random(seed), ids), strict=True))
    ends = {
        task: max(0, *(client.lags[task] for client in cluster.clients)) if cluster.clients else 0
        for task in cluster.stateful
    }
    counts = []
    for group in (cluster, renamed(cluster, names)):
        rounds = converge(group, config, least_movement, ends, rounds_max=100)
        assert not rounds[-1].plan.probing
        counts.append(sum(len(each.changed) for each in rounds))
    assert counts[0] == counts[1]


PLANS_IN_ANOTHER_PROCESS = """
from random import Random
from kstreams_assign.assign import least_movement
from tests.assign.test_least_movement import problem, written
for seed in range(40):
    print(written(least_movement(*problem(seed))))
"""


def written(plan):
    """A plan as text in an order of its own."""
    return [
        (str(process), *(sorted(map(str, tasks)) for tasks in (placed.active, placed.standby, placed.warmup)))
        for process, placed in sorted(plan.placements.items())
    ]


def test_a_process_with_different_hashes_decides_the_same():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PLANS_IN_ANOTHER_PROCESS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"\n") == 40


def test_a_large_group_that_starts_with_all_its_state_on_disk_restores_nothing_from_the_beginning():
    """More tasks without an owner than are compared exactly (``previous_state.ORPHANS_MAX``)."""
    random = Random(1)
    ends = {TaskId(0, partition): 500 for partition in range(2 * ORPHANS_MAX)}
    holders = {task: random.sample(range(4), 2) for task in ends}
    clients = []
    for number in range(4):
        sums = {task: 500 - random.randrange(50) for task in ends if number in holders[task]}
        clients.append(Client(UUID(int=number), 1, frozenset(), frozenset(sums), TaskLags(ends, sums)))
    plan = least_movement(Cluster(tuple(clients), frozenset(ends)), AssignConfig())
    assert [task for task, owner in plan.owners.items() if owner.int not in holders[task]] == []
