"""The fallback: every task stays where it was, and a probing rebalance follows."""

from __future__ import annotations

from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import AssignConfig, Client, Cluster, fallback_prior, previous_owners
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config
from tests.assign.problems import assign_problem
from tests.samples import examples

A, B, C = (UUID(int=number) for number in (1, 2, 3))
T = [TaskId(0, partition) for partition in range(6)]


def cluster(*clients: Client) -> Cluster:
    return Cluster(clients, frozenset(T), frozenset([TaskId(1, 0)]))


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_task_stays_with_its_owner_and_a_probe_follows(seed):
    request = assign_problem(Random(seed))
    group, config = read_cluster(request), read_config(request)
    plan = fallback_prior(group, config)
    assert plan.probing
    had = {task: owner for task, owner in previous_owners(group).items() if task in group.tasks}
    assert {task: plan.owners[task] for task in had} == had
    assert plan.owners.keys() == group.tasks


def test_it_needs_no_lags_and_does_not_balance():
    plan = fallback_prior(cluster(Client(A, prev_active=frozenset(T)), Client(B)), AssignConfig())
    assert plan.placements[A].active == frozenset(T)
    assert plan.placements[B].active == {TaskId(1, 0)}


def test_orphans_go_to_their_standby_while_it_has_room_and_evenly_otherwise():
    plan = fallback_prior(
        cluster(Client(A, prev_active=frozenset(T[:1])), Client(B, prev_standby=frozenset(T[1:]))), AssignConfig()
    )
    assert plan.owners[T[1]] == B
    assert plan.owners[T[2]] == B
    assert sorted(len(placed.active) for placed in plan.placements.values()) == [3, 4]


def test_standbys_stay_up_to_the_number_wanted_and_missing_ones_are_added():
    group = cluster(
        Client(A, prev_active=frozenset(T)),
        Client(B, prev_standby=frozenset(T[:4])),
        Client(C, prev_standby=frozenset(T[3:])),
    )
    plan = fallback_prior(group, AssignConfig(num_standby_replicas=1))
    assert plan.placements[B].standby >= frozenset(T[:3])
    assert plan.placements[C].standby >= frozenset(T[4:])
    assert sorted([*plan.placements[B].standby, *plan.placements[C].standby]) == T


def test_a_task_that_two_processes_claim_goes_to_the_first():
    group = cluster(Client(B, prev_active=frozenset(T)), Client(A, prev_active=frozenset(T)))
    assert fallback_prior(group, AssignConfig()).placements[A].active >= frozenset(T)
