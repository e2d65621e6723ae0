"""``least_movement`` with racks: balance first, then the least traffic and movement together, then rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil
from random import Random
from uuid import UUID

import pytest

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    TaskLags,
    apply_plan,
    check,
    converge,
    cross_rack_partitions,
    is_instance_balanced,
    least_movement,
    why_not_rack_aware,
)
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config, read_longs
from tests.assign.problems import racked_problem

STRATEGIES = ("min_traffic", "balance_subtopology")
A, B, C = (UUID(int=number) for number in (1, 2, 3))


def clusters(seed: int, count: int) -> Iterator[tuple[Cluster, AssignConfig, dict[TaskId, int]]]:
    """Yield groups in the middle of their lives, whose racks are all known."""
    random = Random(seed)
    while count:
        problem = racked_problem(random, 6, 24)
        cluster = read_cluster(problem)
        config = replace(read_config(problem), rack_aware_assignment_strategy="min_traffic")
        if "task_end_offset_sums" in problem and not why_not_rack_aware(cluster, config):
            count -= 1
            yield cluster, config, read_longs(problem["task_end_offset_sums"])


def at_the_end(cluster: Cluster, config: AssignConfig, ends: dict[TaskId, int]):
    rounds = converge(cluster, config, least_movement, ends, rounds_max=100)
    assert not rounds[-1].plan.probing, "it comes to rest"
    return rounds[-1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_end_is_balanced_and_costs_no_more_traffic_than_without(strategy):
    read = {"none": 0, strategy: 0}
    for cluster, settings, ends in clusters(1, 40):
        for each in read:
            config = replace(
                settings,
                rack_aware_assignment_strategy=each,
                rack_aware_assignment_traffic_cost=None,
                rack_aware_assignment_non_overlap_cost=None,
            )
            assert not check(cluster, config, least_movement(cluster, config))
            last = at_the_end(cluster, config, ends)
            assert is_instance_balanced(last.plan.owners, cluster.capacities)
            read[each] += cross_rack_partitions(cluster, last.plan)[0]
            if each == "balance_subtopology":
                assert_shares(cluster, last.plan.owners)
    assert read[strategy] < read["none"] * 0.8


def assert_shares(cluster: Cluster, owners: dict[TaskId, UUID]) -> None:
    size = Counter((task.topology, task.subtopology) for task in cluster.tasks)
    have = Counter((task.topology, task.subtopology, owner) for task, owner in owners.items())
    threads = cluster.capacities
    for (topology, subtopology, owner), count in have.items():
        assert count <= ceil(size[topology, subtopology] * threads[owner] / sum(threads.values()))


def cost(cluster: Cluster, owners: dict[TaskId, UUID], traffic: int, away: int) -> int:
    before = {task: client.process_id for client in cluster.clients for task in client.prev_active}
    rack = {client.process_id: client.rack for client in cluster.clients}
    read = sum(rack[owner] not in racks for task, owner in owners.items() for racks in cluster.source_racks[task])
    return traffic * read + away * sum(owners[task] != owner for task, owner in before.items())


@pytest.mark.parametrize(("traffic", "away"), [(10, 1), (1, 10), (1, 1), (0, 1), (1, 0)])
def test_no_balanced_end_costs_less(traffic, away):
    random = Random(traffic * 100 + away)
    processes = (A, B, C)
    for _ in range(25):
        tasks = [TaskId(0, partition) for partition in range(random.randint(1, 6))]
        ends = dict.fromkeys(tasks, 100)
        runs = {task: random.choice([*processes, None]) for task in tasks}
        clients = tuple(
            Client(
                process,
                prev_active=frozenset(task for task in tasks if runs[task] == process),
                lags=TaskLags(ends, {task: -2 for task in tasks if runs[task] == process}),
                rack=random.choice("ab"),
            )
            for process in processes
        )
        sources = {task: tuple(frozenset(random.choice("ab")) for _ in range(random.randint(1, 2))) for task in tasks}
        cluster = Cluster(clients, frozenset(tasks), source_racks=sources)
        config = AssignConfig(
            rack_aware_assignment_strategy="min_traffic",
            rack_aware_assignment_traffic_cost=traffic,
            rack_aware_assignment_non_overlap_cost=away,
        )
        least = min(
            cost(cluster, dict(zip(tasks, owners, strict=True)), traffic, away)
            for owners in product(processes, repeat=len(tasks))
            if all(
                low <= owners.count(p) <= high
                for p, (low, high) in zip(processes, even_shares(len(tasks), (1, 1, 1)), strict=True)
            )
        )
        goal = {
            t: p
            for p, placed in least_movement(cluster, config).placements.items()
            for t in placed.active | placed.warmup
        }
        rounds = converge(cluster, config, least_movement, ends)
        assert cost(cluster, rounds[-1].plan.owners, traffic, away) == least, goal


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("traffic", "away"), [(10, 0), (1, 1), (0, 0)])
@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_a_group_with_warm_replicas_rests_although_a_move_costs_nothing(strategy, traffic, away, standbys):
    tasks = frozenset(TaskId(0, number) for number in range(24))
    ends, everywhere = dict.fromkeys(tasks, 1_000_000), dict.fromkeys(tasks, (frozenset("abc"),))
    clients = tuple(
        Client(UUID(int=number + 1), lags=TaskLags(ends, {}), rack="abc"[number % 3]) for number in range(6)
    )
    cluster = Cluster(clients, tasks, source_racks=everywhere, changelog_racks=everywhere)
    config = AssignConfig(
        num_standby_replicas=standbys,
        rack_aware_assignment_strategy=strategy,
        rack_aware_assignment_traffic_cost=traffic,
        rack_aware_assignment_non_overlap_cost=away,
    )
    rounds = converge(cluster, config, least_movement, ends)
    first = rounds[0].plan.owners
    assert not rounds[-1].plan.probing
    assert all(each.plan.owners == first for each in rounds)
    again = least_movement(apply_plan(rounds[-1].cluster, rounds[-1].plan, ends), config)
    assert again.owners == first


def test_standbys_change_racks_in_pairs_of_the_same_owner():
    tasks = [TaskId(0, partition) for partition in range(2)]
    ends = dict.fromkeys(tasks, 100)
    reported_sums = {A: {tasks[0]: -2, tasks[1]: -2}, B: {tasks[0]: 100}, C: {tasks[1]: 100}}
    racks = {A: "a", B: "b", C: "c"}
    clients = tuple(
        Client(p, 10 if p == A else 1, lags=TaskLags(ends, reported_sums[p]), rack=racks[p]) for p in reported_sums
    )
    clients = (replace(clients[0], prev_active=frozenset(tasks)), *clients[1:])
    sources = dict.fromkeys(tasks, (frozenset("a"),))
    changelogs = {tasks[0]: (frozenset("c"),), tasks[1]: (frozenset("b"),)}
    cluster = Cluster(clients, frozenset(tasks), source_racks=sources, changelog_racks=changelogs)
    config = AssignConfig(num_standby_replicas=1, rack_aware_assignment_strategy="min_traffic")
    last = at_the_end(cluster, config, ends)
    assert last.plan.placements[B].standby == {tasks[1]}
    assert last.plan.placements[C].standby == {tasks[0]}
    stays = replace(config, rack_aware_assignment_traffic_cost=1, rack_aware_assignment_non_overlap_cost=2)
    assert at_the_end(cluster, stays, ends).plan.placements[B].standby == {tasks[0]}


def test_an_unknown_rack_disables_the_rack_aware_strategy():
    for cluster, config, _ in clusters(2, 10):
        none = replace(config, rack_aware_assignment_strategy="none")
        lost = replace(cluster, clients=(replace(cluster.clients[0], rack=None), *cluster.clients[1:]))
        assert least_movement(lost, config) == least_movement(lost, none)
        assert "does not report one rack" in (why_not_rack_aware(lost, config) or "")
        if cluster.tasks:
            blind = replace(cluster, source_racks={})
            assert least_movement(blind, config) == least_movement(blind, none)
            assert "source partitions" in (why_not_rack_aware(blind, config) or "")
