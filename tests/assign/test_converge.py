"""Rounds until no plan probes: what a scale-out costs, and that groups come to rest."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    Placement,
    Plan,
    TaskLags,
    apply_plan,
    check,
    converge,
    fallback_prior,
    high_availability,
    is_instance_balanced,
    owner_changes_lower_bound,
    previous_owners,
)
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config, read_longs
from tests.assign.problems import assign_problem
from tests.samples import examples

A, B = (UUID(int=number) for number in (1, 2))
T = [TaskId(0, partition) for partition in range(4)]
END = dict.fromkeys(T, 100_000)


def scale_out(tasks: int, processes: int, standbys: int) -> tuple[Cluster, AssignConfig, dict[TaskId, int]]:
    """Return a group at rest, with one more process."""
    end = {TaskId(0, partition): 100_000 for partition in range(tasks)}
    config = AssignConfig(num_standby_replicas=standbys)
    fresh = tuple(Client(UUID(int=number), lags=TaskLags(end, {})) for number in range(processes))
    at_rest = Cluster(fresh, frozenset(end))
    at_rest = apply_plan(at_rest, high_availability(at_rest, config), end)
    joined = Client(UUID(int=processes), lags=TaskLags(end, {}))
    return Cluster((*at_rest.clients, joined), frozenset(end)), config, end


def test_growing_from_10_to_11_processes_takes_java_180_owner_changes_in_91_rounds_instead_of_18():
    cluster, config, end = scale_out(200, 10, standbys=0)
    rounds = converge(cluster, config, high_availability, end)
    assert len(rounds) == 91
    assert sum(len(each.changed) for each in rounds) == 180
    assert owner_changes_lower_bound(previous_owners(cluster), cluster.capacities, cluster.tasks) == 18


def test_owner_changes_wait_for_the_warm_up_to_read_on():
    cluster = Cluster(
        (Client(A, lags=TaskLags(END, dict.fromkeys(T, -2))), Client(B, lags=TaskLags(END, {}))), frozenset(T)
    )
    fast = converge(cluster, AssignConfig(), high_availability, END)
    slow = converge(cluster, AssignConfig(), high_availability, END, offsets_per_round=30_000)
    assert [len(each.changed) for each in fast] == [0, 2]
    assert [len(each.changed) for each in slow] == [0, 0, 0, 2]


def test_a_task_without_an_owner_is_adopted_in_the_first_round():
    rounds = converge(Cluster((Client(A, lags=END),), frozenset(T)), AssignConfig(), high_availability, END)
    assert [(each.changed, each.adopted) for each in rounds] == [((), tuple(T))]


def test_an_assignor_that_always_probes_is_stopped():
    cluster = Cluster((Client(A, lags=END),), frozenset(T))
    rounds = converge(cluster, AssignConfig(), fallback_prior, END, rounds_max=5)
    assert len(rounds) == 5
    assert rounds[-1].plan.probing


@pytest.mark.parametrize(
    ("reported", "position"), [({}, 30), ({T[0]: 50}, 80), ({T[0]: -3}, 30), ({T[0]: 90}, 100), ({T[0]: 101}, 30)]
)
def test_a_replica_reads_on_from_its_position_up_to_the_end(reported, position):
    end = {T[0]: 100}
    busy = Client(A, lags=TaskLags(end, {T[0]: -2}))
    cluster = Cluster((busy, Client(B, lags=TaskLags(end, reported))), frozenset([T[0]]))
    plan = high_availability(cluster, AssignConfig(acceptable_recovery_lag=0, num_standby_replicas=1))
    later = apply_plan(cluster, plan, end, offsets_per_round=30).clients[1]
    assert later.lags[T[0]] == 100 - position


def test_a_process_that_ran_a_task_has_read_it_to_the_end():
    end = {T[0]: 100}
    cluster = Cluster((Client(A, lags=TaskLags(end, {T[0]: -2})), Client(B, lags=TaskLags(end, {}))), frozenset(end))
    swapped = Plan({A: Placement(standby=frozenset(end)), B: Placement(active=frozenset(end))}, probing=False)
    later = apply_plan(cluster, swapped, end, offsets_per_round=30)
    assert [client.lags[T[0]] for client in later.clients] == [0, -2]


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_group_comes_to_rest_balanced_with_every_property_on_the_way(seed):
    request = assign_problem(Random(seed), 8, 30)
    cluster, config = read_cluster(request), read_config(request)
    end = read_longs(request.get("task_end_offset_sums", {})) or dict.fromkeys(cluster.stateful, 1000)
    rounds = converge(cluster, config, high_availability, end, rounds_max=200)
    assert not rounds[-1].plan.probing
    for each in rounds:
        assert check(each.cluster, config, each.plan) == []
    if not cluster.stateless and len({client.capacity for client in cluster.clients}) == 1:
        assert is_instance_balanced(rounds[-1].plan.owners, cluster.capacities)
    settled = apply_plan(cluster, rounds[-1].plan, end)
    assert high_availability(settled, config) == rounds[-1].plan
