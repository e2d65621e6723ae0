"""The cheapest standbys, against a minimum cost flow of networkx; ``small_clusters`` tries all layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from uuid import UUID

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig, Client, Cluster, TaskLags, apply_plan, converge, least_movement
from kstreams_assign.assign.least_movement.final_owners import final_owners
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.standby import exchanges
from kstreams_assign.assign.standby import table as tables
from kstreams_assign.assign.standby.spread import final_standbys
from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.model import TaskId
from tests.assign.small_clusters import Small, cells_off, layout_cost
from tests.samples import examples

CONFIG = AssignConfig(num_standby_replicas=1)


LARGE = (20_000, 100_000, 300_000)
SMALL = (0, 50, CONFIG.acceptable_recovery_lag)


def changed_group(random: Random, sizes: Sequence[int] = LARGE) -> Cluster:
    """A group at rest, then some processes more or fewer; some replicas are behind. Tasks have one of the ``sizes``."""
    tasks = random.randint(3, 50)
    ends = {TaskId(0, partition): random.choice(sizes) for partition in range(tasks)}
    names = [UUID(int=number) for number in range(1, random.randint(4, 10))]
    empty = [Client(name, random.choice((1, 1, 1, 2)), lags=TaskLags(ends, {})) for name in names]
    rounds = converge(Cluster(tuple(empty), frozenset(ends)), CONFIG, least_movement, ends)
    clients = list(apply_plan(rounds[-1].cluster, rounds[-1].plan, ends).clients)
    for _ in range(random.randint(0, 2)):
        clients.pop(random.randrange(len(clients)))
    for _ in range(random.randint(0, 2)):
        sums = {task: random.randrange(end + 1) for task, end in ends.items() if random.random() < 0.1}
        clients.append(Client(UUID(int=random.getrandbits(128)), 1, lags=TaskLags(ends, sums)))
    return Cluster(tuple(clients), frozenset(ends))


def table_of(cluster: Cluster) -> StandbyTable:
    held = PreviousState(cluster, CONFIG.acceptable_recovery_lag)
    return StandbyTable(held, final_owners(held), 1, None)


def least_cost(table: StandbyTable) -> tuple[int, int]:
    """The least distance of columns from their limits, then offsets to restore with cells: network simplex."""
    limits, clients, number = table.limits, range(len(table.column)), len(table.owners)
    dearest = 1 + max(table.held.rank(task, client) for task in range(number) for client in clients)
    column_price = 2 * number * (dearest + table.cell_price)
    graph = nx.MultiDiGraph()
    for task, owner in enumerate(table.owners):
        graph.add_node(("task", task), demand=-1)
        for client in clients:
            if client != owner:
                graph.add_edge(
                    ("task", task), ("cell", owner, client), capacity=1, weight=table.held.rank(task, client)
                )
    for owner in set(table.owners):
        row = limits.rows[owner]
        for client in clients:
            cell, column = ("cell", owner, client), ("column", client)
            _add_limits(graph, cell, column, row.least[client], row.most[client], table.cell_price)
    for client in clients:
        _add_limits(
            graph, ("column", client), "end", limits.column_low[client], limits.column_high[client], column_price
        )
    graph.add_node("end", demand=number)
    flow = nx.network_simplex(graph)[1]
    layout = [
        [client for (_, _, client), arcs in flow["task", task].items() if any(arcs.values())] for task in range(number)
    ]
    return layout_cost(table, layout)


def _add_limits(graph: nx.MultiDiGraph, source: object, goal: object, low: int, high: int, price: int) -> None:
    """Add arcs of which the first ``low`` units are wanted, those up to ``high`` are free, and more cost ``price``."""
    graph.add_edge(source, goal, capacity=low, weight=-price)
    graph.add_edge(source, goal, capacity=high - low, weight=0)
    graph.add_edge(source, goal, weight=price)


@settings(max_examples=examples(250), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_layout_that_is_as_even_costs_less(seed):
    cluster = changed_group(Random(seed))
    if len(cluster.clients) > 2:
        table = table_of(cluster)
        layout = final_standbys(table.held, final_owners(table.held), CONFIG)
        assert layout_cost(table, layout) == least_cost(table)


@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_layout_it_begins_with_a_cheapest_one_is_found(seed):
    random = Random(seed)
    cluster = changed_group(random)
    if len(cluster.clients) > 2:
        table = table_of(cluster)
        clients = range(len(cluster.clients))
        for task, owner in enumerate(table.owners):
            table.put(task, random.choice([client for client in clients if client != owner]))
        exchanges.Exchanges(table).settle()
        assert layout_cost(table, table.copies) == least_cost(table)


@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 2**32), sizes=st.sampled_from((SMALL, (*SMALL, *LARGE))))
def test_a_group_at_rest_keeps_its_standbys(seed, sizes):
    """Small tasks may move for nothing: a replica of them counts as restored wherever it is."""
    cluster = changed_group(Random(seed), sizes)
    ends = next(dict(client.lags.end_offset_sums) for client in cluster.clients)
    rounds = converge(cluster, CONFIG, least_movement, ends)
    at_rest = apply_plan(rounds[-1].cluster, rounds[-1].plan, ends)
    assert least_movement(at_rest, CONFIG).placements == rounds[-1].plan.placements


@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_cost_of_a_layout_equals_its_twin(seed):
    random = Random(seed)
    cluster = changed_group(random, (*SMALL, *LARGE))
    if len(cluster.clients) > 2:
        table = table_of(cluster)
        clients = range(len(cluster.clients))
        for task, owner in enumerate(table.owners):
            table.put(task, random.choice([client for client in clients if client != owner]))
        assert exchanges.cost(table) == layout_cost(table, table.copies)


@pytest.mark.parametrize(("processes", "tasks_each"), [(2, 3), (3, 4), (2, 6)])
@pytest.mark.parametrize("seed", range(5))
def test_small_differences_of_size_are_no_reason_to_move_tasks_after_a_loss(processes, tasks_each, seed):
    random = Random(seed)
    ends = {TaskId(0, number): random.randint(970_000, 1_030_000) for number in range(processes * tasks_each)}
    *names, new = (UUID(int=random.getrandbits(128)) for _ in range(processes + 1))
    group = Cluster(tuple(Client(name, 1, lags=TaskLags(ends, {})) for name in names), frozenset(ends))
    at_rest = last_cluster(group, ends)
    clients = (*at_rest.clients, Client(new, 1, lags=TaskLags(ends, {})))
    grown = last_cluster(Cluster(clients, frozenset(ends)), ends)
    copies = {client.process_id: client.prev_active | client.prev_standby for client in grown.clients}
    assert len(copies[new]) == 2 * len(ends) // (processes + 1)
    assert all(client.prev_active | client.prev_standby >= copies[client.process_id] for client in at_rest.clients)
    table = table_of(grown)
    assert cells_off(table, final_standbys(table.held, final_owners(table.held), CONFIG)) == 0


def last_cluster(cluster: Cluster, ends: Mapping[TaskId, int]) -> Cluster:
    """Return the group at rest."""
    last = converge(cluster, CONFIG, least_movement, ends)[-1]
    return apply_plan(last.cluster, last.plan, ends)


def restored(small: Small) -> int:
    """Return how many replicas are made until the group rests, of tasks of one size."""
    cluster = small.cluster()
    held = {client.process_id: client.prev_active | client.prev_standby for client in cluster.clients}
    made = 0
    for each in converge(cluster, small.config, least_movement, dict.fromkeys(cluster.stateful, 1_000)):
        for process, placed in each.plan.placements.items():
            made += len(placed.copies - held[process])
            held[process] = placed.copies
    return made


UNLUCKY = Small(("---", "--F", "FR-"), (0, 0, 0), (1, 1, 1), 1)
"""A layout of which the first standbys of each task lead to one replica too many."""


def test_an_exchange_saves_a_replica(monkeypatch):
    fewest = restored(UNLUCKY)
    monkeypatch.setattr(tables, "PLACES_MAX", 0)
    assert restored(UNLUCKY) == fewest + 1


def test_a_group_at_rest_is_not_searched(monkeypatch):
    cluster = changed_group(Random(1))
    ends = dict.fromkeys(cluster.stateful, 300000)
    rounds = converge(cluster, CONFIG, least_movement, ends)
    at_rest = apply_plan(rounds[-1].cluster, rounds[-1].plan, ends)
    monkeypatch.setattr(exchanges, "Exchanges", None)
    assert least_movement(at_rest, CONFIG).placements == rounds[-1].plan.placements
