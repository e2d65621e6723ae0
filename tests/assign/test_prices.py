"""The lower bound of a layout's cost is exact: where it is met, the exact search finds no cheaper layout."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import Client, Cluster, TaskLags
from kstreams_assign.assign.least_movement import final_owners as module
from kstreams_assign.assign.least_movement.exchanges import Exchanges
from kstreams_assign.assign.least_movement.final_owners import final_owners
from kstreams_assign.assign.least_movement.prices import Prices
from kstreams_assign.assign.least_movement.subtopologies import Subtopologies
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.seats import OpenSeats
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from tests.samples import examples

ACCEPTABLE = 100


def group(seed):
    """Return subtopologies, tasks with and without owners, some replicas, and new processes with replicas."""
    random = Random(seed)
    tasks = [TaskId(kind, part) for kind in range(random.choice((1, 1, 2))) for part in range(random.randint(1, 12))]
    members, fresh = random.randint(1, 5), random.randint(0, 2)
    ends = {task: random.choice((0, 50, 500, 600, 700)) for task in tasks}
    runs = {task: random.choice((*range(members), *range(members), None)) for task in tasks}
    copies = random.choice((0.0, 0.1, 0.4))
    clients = []
    for number in range(members + fresh):
        active = frozenset(task for task in tasks if runs[task] == number)
        sums_of_copies = {task: random.randint(0, ends[task]) for task in tasks if random.random() < copies}
        sums = sums_of_copies | dict.fromkeys(active, RUNNING_OFFSET_SUM)
        threads = random.choice((1, 1, 2))
        clients.append(
            Client(UUID(int=number + 1), threads, active, frozenset(sums_of_copies) - active, TaskLags(ends, sums))
        )
    return PreviousState(Cluster(tuple(clients), frozenset(tasks)), random.choice((ACCEPTABLE, 650, 1000)))


def exchanged(held, owners):
    """Return the owners that the exact search derives from these."""
    better = list(owners)
    kinds = Subtopologies(held.tasks, held.capacity)
    kinds.add_all(better)
    Exchanges(held, better, OpenSeats.even(len(held.tasks), held.capacity), kinds, Prices(held)).settle()
    return better


@settings(max_examples=examples(400), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_cheaper_layout_exists_with_or_without_a_search(seed):
    held = group(seed)
    owners = final_owners(held)
    assert exchanged(held, owners) == owners


def test_the_search_is_skipped_when_a_process_joins_and_runs_where_needed(monkeypatch):
    searches = []

    class Counted(Exchanges):
        def settle(self):
            searches.append(self)
            super().settle()

    monkeypatch.setattr(module, "Exchanges", Counted)
    ends = {TaskId(0, part): 500 for part in range(12)}
    at_work = [list(ends)[number::3] for number in range(3)]
    clients = [
        Client(UUID(int=number + 1), 1, frozenset(ran), frozenset(), TaskLags(ends, dict.fromkeys(ran, -2)))
        for number, ran in enumerate([*at_work, []])
    ]
    final_owners(PreviousState(Cluster(tuple(clients), frozenset(ends)), ACCEPTABLE))
    assert searches == []
    for seed in range(100):
        final_owners(group(seed))
    assert 0 < len(searches) < 100


@pytest.mark.parametrize(("copy", "change"), [(None, "no copy"), (500, "a copy")])
def test_a_leaver_costs_its_price_there_less_what_it_saves(copy, change):
    ends = {TaskId(0, 0): 500, TaskId(0, 1): 500}
    runs = TaskLags(ends, dict.fromkeys(ends, RUNNING_OFFSET_SUM))
    joins = TaskLags(ends, {} if copy is None else {TaskId(0, 0): copy})
    pair = (
        Client(UUID(int=1), 1, frozenset(ends), frozenset(), runs),
        Client(UUID(int=2), 1, frozenset(), frozenset(), joins),
    )
    prices = Prices(PreviousState(Cluster(pair, frozenset(ends)), ACCEPTABLE))
    by_client, others = prices.of(0)
    assert prices.leaving(0, 1) == by_client.get(1, others) - by_client[0]
    assert (prices.leaving(0, 1) < prices.change + prices.no_copy) == (change == "a copy")
