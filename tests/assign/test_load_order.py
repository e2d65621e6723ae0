"""Shortcuts compared with the long way: load keys, several standbys at once, caught-up clients, crowded tables."""

from __future__ import annotations

from fractions import Fraction
from heapq import heappush
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import Client, Cluster, TaskLags, is_caught_up
from kstreams_assign.assign.java.clients_by_load import Layout
from kstreams_assign.assign.java.hash_table import is_crowded, may_crowd, walk_order
from kstreams_assign.assign.java.lag_table import LagTable
from kstreams_assign.assign.java.plan_table import PlanTable, load_units
from kstreams_assign.assign.java.standbys import LeastLoaded
from kstreams_assign.assign.java.thread_balance import Threads
from kstreams_assign.assign.lags import UNBOUNDED_LAG
from kstreams_assign.model import TaskId

capacities = st.lists(st.integers(1, 12), min_size=1, max_size=8)
lags = st.sampled_from([-4, -3, -2, 0, 1, 9, 10, 11, 500])


def table_of(capacity, tasks=1):
    clients = tuple(Client(UUID(int=number), threads) for number, threads in enumerate(capacity))
    return PlanTable(Cluster(clients, frozenset(TaskId(0, partition) for partition in range(tasks))))


@given(capacity=capacities, data=st.data())
def test_keys_of_loads_sort_as_load_then_client(capacity, data):
    count = data.draw(st.lists(st.integers(0, 50), min_size=len(capacity), max_size=len(capacity)))
    keys = [
        copies * unit + client for client, (copies, unit) in enumerate(zip(count, load_units(capacity), strict=True))
    ]
    clients = range(len(capacity))
    assert sorted(clients, key=keys.__getitem__) == sorted(
        clients, key=lambda client: (Fraction(count[client], capacity[client]), client)
    )
    assert [key % len(capacity) for key in keys] == list(clients)


@given(capacity=capacities, data=st.data())
def test_several_standbys_at_once_go_where_they_would_go_in_turn(capacity, data):
    wanted = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    excluded = data.draw(st.sets(st.sampled_from(range(len(capacity)))))
    together, single = table_of(capacity, len(wanted)), table_of(capacity, len(wanted))
    for plan_table in (together, single):
        plan_table.give_active(0, 0)
    queue, queue_in_turn = LeastLoaded(together), LeastLoaded(single)
    for task, number in enumerate(wanted):
        given = queue.give_standbys(task, number, excluded)
        assert given == [client for _ in range(number) for client in queue_in_turn.give_standbys(task, 1, excluded)]
        assert not excluded & set(given)
    assert (together.holders, together.count) == (single.holders, single.count)
    clients = range(len(capacity))
    assert sorted(queue.heap) == sorted(together.count[client] * queue.units[client] + client for client in clients)


@given(capacity=capacities, count=st.integers(0, 30))
def test_the_least_load_after_taking_a_replica_is_kept_while_counts_change(capacity, count):
    counts = [count] * len(capacity)
    threads = Threads(counts, capacity)
    counts[0] += 3
    threads.changed(0)
    assert threads.least == min((have + 1) / each for have, each in zip(counts, capacity, strict=True))


@given(
    reported=st.lists(st.none() | lags, min_size=1, max_size=6),
    end=lags,
    acceptable=st.sampled_from([0, 10, UNBOUNDED_LAG, UNBOUNDED_LAG + 1]),
)
def test_a_client_is_colder_when_it_is_not_caught_up_and_another_has_less_lag(reported, end, acceptable):
    task, ends = TaskId(0, 0), {TaskId(0, 0): end}
    clients = tuple(Client(UUID(int=number), lags=lags_of(ends, task, lag)) for number, lag in enumerate(reported))
    every = range(len(reported))
    lag_by_client = [client.lags[task] for client in clients]
    table = LagTable(PlanTable(Cluster(clients, frozenset({task}))), acceptable)
    assert table.caught_up_clients(0) == {client for client in every if is_caught_up(lag_by_client[client], acceptable)}
    assert table.colder(0, every) == [
        client
        for client in every
        if not is_caught_up(lag_by_client[client], acceptable) and min(lag_by_client) < lag_by_client[client]
    ]


def lags_of(ends, task, lag):
    lags = TaskLags(ends, {})
    if lag is not None:
        lags.reported[task] = lag
    return lags


@given(st.lists(st.integers(0, 3) | st.integers(0, 2**32 - 1), max_size=60), st.data())
def test_tables_of_some_keys_are_crowded_only_if_tables_of_all_keys_may_be(hashes, data):
    chosen = data.draw(st.lists(st.sampled_from(hashes), unique=True)) if hashes else []
    repeated = [hashed for hashed in hashes if hashed in chosen]
    assert may_crowd(hashes) or not is_crowded(repeated)


@pytest.mark.parametrize("step", [1, 16])
def test_skipped_clients_return_in_the_order_of_javas_hash_set(step):
    """With a step of 16 all share a bucket, and the set becomes a tree."""
    keys, hashes = list(range(20)), [step * (41 - client) for client in range(20)]
    layout, heap = Layout(keys, hashes), []
    layout.take(19)
    for key in walk_order(keys[:19], hashes[:19], int):
        heappush(heap, key)
    assert layout.heap == heap
    assert may_crowd(hashes) == (step == 16)


def test_nine_keys_in_a_bucket_may_crowd_it_and_eight_may_not():
    assert may_crowd([16 * number for number in range(9)])
    assert not may_crowd([16 * number for number in range(8)])
