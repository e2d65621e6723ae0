"""The flow between tasks and clients compared with its slow twin, which is Kafka's graph edge by edge (KIP-925)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import ceil
from random import Random

import networkx as nx
import pytest

from kstreams_assign.assign.java import rack_flow
from kstreams_assign.assign.java.places import FlowProblem
from tests.assign import graph_twin
from tests.samples import sample

STRATEGIES = ("min_traffic", "balance_subtopology")


def problem(random: Random, tasks_max: int = 14, clients_max: int = 6) -> FlowProblem:
    """Return a problem with racks without clients, free traffic, free movement, or clients without tasks."""
    tasks, clients = random.randint(1, tasks_max), random.randint(1, clients_max)
    rack = [random.randrange(random.randint(1, 4)) for _ in range(clients)]
    racks, groups = max(rack) + 1, random.randint(1, 4)
    drawn = sorted(random.randrange(groups) for _ in range(tasks))
    numbers = {group: number for number, group in enumerate(dict.fromkeys(drawn))}
    traffic = random.choice([0, 1, 1, 3, 10, 10])
    rows = [[traffic * random.randint(0, 3) for _ in range(racks)] for _ in range(random.randint(1, 6))]
    dealt = random.random() < 0.3
    return FlowProblem(
        owner=[task % clients if dealt else random.randrange(clients) for task in range(tasks)],
        group=[numbers[group] for group in drawn],
        rack=rack,
        cost=[random.choice(rows) for _ in range(tasks)],
        away=random.choice([0, 1, 1, 2, 10]),
    )


def cost(flow: FlowProblem, at: list[int]) -> int:
    return sum(graph_twin.price(flow, task, client) for task, client in enumerate(at))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_equal_optima_the_solver_finds_javas(strategy):
    for seed in sample(range(250), 50):
        flow = problem(Random(seed))
        assert getattr(rack_flow, strategy)(flow) == getattr(graph_twin, strategy)(flow), seed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_skipping_repeated_passes_does_not_change_larger_flows(strategy):
    for seed in (500_000, 500_003, 500_018, 500_024):
        flow = problem(Random(seed), 40, 10)
        assert getattr(rack_flow, strategy)(flow) == getattr(graph_twin, strategy)(flow), seed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_client_keeps_its_number_of_tasks_and_the_cost_does_not_rise(strategy):
    for seed in sample(range(150), 30):
        flow = problem(Random(seed), 60, 12)
        at = getattr(rack_flow, strategy)(flow)
        assert Counter(at) == Counter(flow.owner)
        if strategy == "min_traffic":
            assert cost(flow, at) <= cost(flow, list(flow.owner))


def test_balance_subtopology_gives_no_client_more_than_its_share_of_a_subtopology_rounded_up():
    for seed in sample(range(150), 30):
        flow = problem(Random(seed), 60, 12)
        at = rack_flow.balance_subtopology(flow)
        number, size = Counter(flow.owner), Counter(flow.group)
        for (client, group), count in Counter(zip(at, flow.group, strict=True)).items():
            assert count <= ceil(number[client] * 1.0 / len(at) * size[group])


def optimum(flow: FlowProblem, room: Mapping[tuple[int, int], int]) -> int:
    """Return the least cost by networkx, which uses another algorithm."""
    graph = nx.DiGraph()
    for task, group in enumerate(flow.group):
        graph.add_node(("task", task), demand=-1)
        for client in range(len(flow.rack)):
            graph.add_edge(("task", task), (group, client), weight=graph_twin.price(flow, task, client), capacity=1)
    for place, most in room.items():
        graph.add_edge(place, place[1], capacity=most)
    for client, number in Counter(flow.owner).items():
        graph.add_edge(client, "end", capacity=number)
    graph.add_node("end", demand=len(flow.owner))
    return int(nx.min_cost_flow_cost(graph))


def test_no_other_solver_finds_a_cheaper_flow():
    for seed in sample(range(25), 8):
        flow = problem(Random(seed), 60, 8)
        number, size = Counter(flow.owner), Counter(flow.group)
        places = list(product(size, range(len(flow.rack))))
        shares = {(g, c): ceil(number[c] * 1.0 / len(flow.owner) * size[g]) for g, c in places}
        assert cost(flow, rack_flow.min_traffic(flow)) == optimum(flow, dict.fromkeys(places, len(flow.owner)))
        assert cost(flow, rack_flow.balance_subtopology(flow)) == optimum(flow, shares)


def test_balance_costs_at_least_as_much_traffic_as_the_least():
    for seed in sample(range(100), 25):
        flow = problem(Random(seed), 40, 8)
        assert cost(flow, rack_flow.min_traffic(flow)) <= cost(flow, rack_flow.balance_subtopology(flow))
