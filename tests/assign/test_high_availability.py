"""The KIP-441 assignor by example. Equality with Java is tested in test_golden."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig, Client, Cluster, Placement, TaskLags, high_availability
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId

A, B, C = (UUID(int=number) for number in (1, 2, 3))
T = [TaskId(0, partition) for partition in range(4)]
END = dict.fromkeys(T, 100_000)


def process(process_id: UUID, sums: dict[TaskId, int], threads: int = 1) -> Client:
    return Client(process_id, threads, lags=TaskLags(END, sums))


def test_a_new_process_warms_up_within_the_budget_while_the_old_process_keeps_the_tasks():
    cluster = Cluster((process(A, dict.fromkeys(T, -2)), process(B, {})), frozenset(T))
    plan = high_availability(cluster, AssignConfig(max_warmup_replicas=1))
    assert plan.placements == {A: Placement(active=frozenset(T)), B: Placement(warmup=frozenset([T[1]]))}
    assert plan.probing


def test_once_the_warm_up_has_caught_up_the_task_moves_and_no_probe_follows():
    warm = {T[1]: 95_000, T[3]: 95_000}
    cluster = Cluster((process(A, dict.fromkeys(T, -2)), process(B, warm)), frozenset(T))
    plan = high_availability(cluster, AssignConfig())
    assert plan.owners == {T[0]: A, T[1]: B, T[2]: A, T[3]: B}
    assert not plan.probing


def test_a_caught_up_standby_swaps_roles_without_a_warm_up():
    sums = {A: {T[0]: -2, T[1]: 0}, B: {T[1]: -2, T[0]: 99_999}, C: {}}
    cluster = Cluster(tuple(process(name, sums[name]) for name in sums), frozenset(T[:2]))
    plan = high_availability(cluster, AssignConfig(num_standby_replicas=1))
    assert all(not placed.warmup or placed.warmup.isdisjoint(placed.standby) for placed in plan.placements.values())
    assert plan.owners == {T[0]: A, T[1]: B}


def test_tasks_are_shared_by_threads():
    cluster = Cluster((process(A, {}, threads=3), process(B, {})), frozenset(T))
    plan = high_availability(cluster, AssignConfig())
    assert (len(plan.placements[A].active), len(plan.placements[B].active)) == (3, 1)


def test_stateless_tasks_need_no_lag_and_fill_up_the_emptiest():
    stateless = frozenset(TaskId(1, partition) for partition in range(4))
    cluster = Cluster((process(A, dict.fromkeys(T, -2)), process(B, {})), frozenset(T), stateless)
    plan = high_availability(cluster, AssignConfig())
    assert plan.placements[B].active == stateless


@pytest.mark.parametrize("lags", [{T[0]: 5}, TaskLags({T[0]: 5}, {})])
def test_a_stateful_task_without_a_lag_is_refused(lags):
    cluster = Cluster((Client(A, lags=lags), Client(B, lags=lags)), frozenset(T[:2]))
    with pytest.raises(ConfigError, match="no entry for stateful task 0_1"):
        high_availability(cluster, AssignConfig())
