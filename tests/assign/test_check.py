"""The plan properties: plans of our assignors have them, and a plan that violates one names the culprit."""

from __future__ import annotations

from dataclasses import replace
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
    check,
    fallback_prior,
    high_availability,
)
from kstreams_assign.assign.check import check_actives_caught_up
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config
from tests.assign.problems import assign_problem
from tests.samples import examples

A, B, C = (UUID(int=number) for number in (1, 2, 3))
T0, T1, T2 = (TaskId(0, partition) for partition in range(3))
STATELESS = TaskId(1, 0)
END = dict.fromkeys((T0, T1, T2), 100)
CLUSTER = Cluster(
    (
        Client(A, lags=TaskLags(END, {T0: -2, T1: -2})),
        Client(B, lags=TaskLags(END, {T2: -2, T0: 100})),
        Client(C, lags=TaskLags(END, {})),
    ),
    frozenset(END),
    frozenset([STATELESS]),
)
CONFIG = AssignConfig(acceptable_recovery_lag=10, max_warmup_replicas=1, num_standby_replicas=1)
GOOD = {
    A: Placement(frozenset([T0, T1]), frozenset([T2])),
    B: Placement(frozenset([T2]), frozenset([T0])),
    C: Placement(frozenset([STATELESS]), frozenset([T1]), frozenset([T0])),
}


def tell(**changed: Placement | None) -> list[str]:
    """Return what the checks report about the good plan with some placements changed."""
    placements = GOOD | {{"A": A, "B": B, "C": C}[name]: placed for name, placed in changed.items()}
    return check(CLUSTER, CONFIG, Plan({name: placed for name, placed in placements.items() if placed}, probing=True))


def test_a_good_plan_passes():
    assert tell() == []


def test_a_process_without_a_placement_is_named():
    assert f"process {C} has no placement" in tell(C=None)


def test_a_process_outside_the_cluster_is_named():
    stranger = UUID(int=9)
    assert check(CLUSTER, CONFIG, Plan(GOOD | {stranger: Placement()}, probing=False)) == [
        f"process {stranger} is not in the cluster"
    ]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"A": Placement(frozenset([T0]), frozenset([T2]))}, "task 0_1 is not active on any process"),
        ({"C": replace(GOOD[C], active=frozenset())}, "task 1_0 is not active on any process"),
        ({"B": replace(GOOD[B], active=frozenset([T2, T1]))}, f"task 0_1 is active on 2 processes: {A}, {B}"),
        ({"C": replace(GOOD[C], active=frozenset([STATELESS, TaskId(7, 7)]))}, "task 7_7 is not in the cluster"),
        ({"A": Placement(frozenset([T0, T1]), frozenset([T2, T1]))}, f"process {A} holds two replicas of task 0_1"),
        ({"C": replace(GOOD[C], standby=frozenset([T1, T0]))}, f"process {C} holds two replicas of task 0_0"),
        ({"A": Placement(frozenset([T0, T1]))}, "task 0_2 has 0 standbys instead of 1: no process"),
        ({"C": replace(GOOD[C], standby=frozenset([T1, T2]))}, f"task 0_2 has 2 standbys instead of 1: {A}, {C}"),
        ({"A": replace(GOOD[A], standby=frozenset([T2, STATELESS]))}, "task 1_0 has a standby but no state"),
        ({"A": replace(GOOD[A], warmup=frozenset([STATELESS]))}, "task 1_0 has a warm-up but no state"),
        ({"C": replace(GOOD[C], warmup=frozenset([T0, T2]))}, "2 warm-ups exceed max_warmup_replicas = 1: 0_0, 0_2"),
        (
            {
                "A": Placement(frozenset([T1]), frozenset([T0])),
                "B": Placement(frozenset([T2])),
                "C": Placement(frozenset([T0])),
            },
            f"task 0_0 is active on {C} (rank 100), but {A} has rank 0",
        ),
    ],
)
def test_a_violated_property_names_its_culprit(changed, text):
    assert text in tell(**changed)


def test_a_task_may_run_on_any_caught_up_process():
    owners = GOOD | {A: Placement(frozenset([T1])), B: Placement(frozenset([T2, T0]))}
    assert check_actives_caught_up(CLUSTER, CONFIG, Plan(owners, probing=False)) == []


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 12), tasks=st.integers(0, 60))
def test_plans_of_the_high_availability_assignor_have_all_properties(seed, clients, tasks):
    request = assign_problem(Random(seed), clients, tasks)
    cluster, config = read_cluster(request), read_config(request)
    assert check(cluster, config, high_availability(cluster, config)) == []


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 12), tasks=st.integers(0, 60))
def test_plans_of_the_fallback_have_all_properties_except_for_lags(seed, clients, tasks):
    request = assign_problem(Random(seed), clients, tasks)
    cluster, config = read_cluster(request), read_config(request)
    plan = fallback_prior(cluster, config)
    assert [text for text in check(cluster, config, plan) if "rank" not in text] == []
