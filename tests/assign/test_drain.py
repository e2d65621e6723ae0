"""A draining process keeps the tasks that no other process has caught up on, and in the end it has none."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import (
    ASSIGNORS,
    AssignConfig,
    Client,
    Cluster,
    TaskLags,
    apply_plan,
    check,
    converge,
    drain_assignor,
    is_caught_up,
    owner_changes,
    previous_owners,
)
from kstreams_assign.assign.check import check_actives_caught_up
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

END = 50_000


def at_rest(members: int, tasks: int, config: AssignConfig, stateless: int = 0) -> Cluster:
    """A group that has settled."""
    stateful = [TaskId(0, number) for number in range(tasks)]
    ends = dict.fromkeys(stateful, END)
    clients = tuple(Client(UUID(int=number + 1), lags=TaskLags(ends, {})) for number in range(members))
    cluster = Cluster(clients, frozenset(stateful), frozenset(TaskId(1, number) for number in range(stateless)))
    last = converge(cluster, config, ASSIGNORS["least_movement"], ends)[-1]
    placements = last.plan.placements
    return Cluster(
        tuple(
            Client(
                client.process_id,
                client.capacity,
                placements[client.process_id].active,
                placements[client.process_id].standby,
                TaskLags(
                    ends,
                    dict.fromkeys(placements[client.process_id].standby, END)
                    | dict.fromkeys(placements[client.process_id].active & cluster.stateful, RUNNING_OFFSET_SUM),
                ),
            )
            for client in clients
        ),
        cluster.stateful,
        cluster.stateless,
    )


@pytest.mark.parametrize("name", ["least_movement", "high_availability", "sticky"])
@given(members=st.integers(2, 6), tasks=st.integers(0, 14), stateless=st.integers(0, 5), standbys=st.integers(0, 2))
def test_a_draining_process_ends_without_tasks_and_no_task_starts_cold(name, members, tasks, stateless, standbys):
    config = AssignConfig(num_standby_replicas=standbys)
    cluster = at_rest(members, tasks, config, stateless)
    leaving = UUID(int=1)
    rounds = converge(
        cluster, config, drain_assignor(ASSIGNORS[name], frozenset({leaving})), dict.fromkeys(cluster.stateful, END)
    )
    assert not rounds[-1].plan.probing
    assert not rounds[-1].plan.placements[leaving].copies
    for round_ in rounds:
        lags = {client.process_id: client.lags for client in round_.cluster.clients}
        assert all(
            lags[process][task] <= 10_000 for task, process in round_.plan.owners.items() if task in cluster.stateful
        )
        assert sum(len(placed.warmup) for placed in round_.plan.placements.values()) <= config.max_warmup_replicas
        assert not [text for text in check(round_.cluster, config, round_.plan) if "active on" in text]


def test_with_a_standby_of_each_task_all_of_them_leave_at_once():
    config = AssignConfig(num_standby_replicas=1)
    cluster = at_rest(4, 12, config)
    leaving = UUID(int=2)
    plan = drain_assignor(ASSIGNORS["least_movement"], frozenset({leaving}))(cluster, config)
    assert not plan.placements[leaving].copies
    assert len(owner_changes(previous_owners(cluster), plan.owners, cluster.capacities)[0]) == 3


def test_warm_ups_that_have_begun_come_first_then_the_smallest_lag():
    tasks = [TaskId(0, number) for number in range(4)]
    ends = dict(zip(tasks, (50_000, 40_000, 30_000, 60_000), strict=True))
    runs = Client(UUID(int=1), 1, frozenset(tasks), lags=TaskLags(ends, dict.fromkeys(tasks, RUNNING_OFFSET_SUM)))
    heir = Client(UUID(int=2), 1, prev_standby=frozenset({tasks[3]}), lags=TaskLags(ends, {tasks[3]: 5}))
    plan = drain_assignor(ASSIGNORS["least_movement"], frozenset({UUID(int=1)}))(
        Cluster((runs, heir), frozenset(tasks)), AssignConfig(max_warmup_replicas=2)
    )
    assert plan.placements[UUID(int=2)].warmup == {tasks[3], tasks[2]}
    assert plan.placements[UUID(int=1)].active == set(tasks)
    assert plan.probing


def test_a_new_owner_without_a_warm_up_keeps_its_replica_in_place_of_a_colder_standby():
    """Otherwise the warmest process would lose its replica in each round, and no process would ever catch up."""
    tasks = [TaskId(0, number) for number in range(3)]
    ends = dict.fromkeys(tasks, END)
    leaving, cold, warm = (UUID(int=number) for number in (1, 2, 3))
    half = dict.fromkeys(tasks, END // 2)
    cluster = Cluster(
        (
            Client(leaving, 1, frozenset(tasks), lags=TaskLags(ends, dict.fromkeys(tasks, RUNNING_OFFSET_SUM))),
            Client(cold, 1, lags=TaskLags(ends, {})),
            Client(warm, 1, prev_standby=frozenset(tasks), lags=TaskLags(ends, half)),
        ),
        frozenset(tasks),
    )
    config = AssignConfig(num_standby_replicas=1, max_warmup_replicas=1)
    plan = drain_assignor(ASSIGNORS["high_availability"], frozenset({leaving}))(cluster, config)
    assert plan.owners == dict.fromkeys(tasks, leaving)
    assert plan.placements[warm].copies == set(tasks)
    assert sum(len(placed.standby) for placed in plan.placements.values()) == len(tasks)
    assert sum(len(placed.warmup) for placed in plan.placements.values()) == 1
    assert plan.probing


def only_the_leaving_have_it(*lags: int) -> tuple[Cluster, list[TaskId], list[UUID]]:
    """A cluster with a staying process, and a leaving one for each of ``lags``: its lag in two tasks of a dead one."""
    tasks = [TaskId(0, number) for number in range(4)]
    ends = dict.fromkeys(tasks, 1_000_000)
    lost = tasks[2:]
    staying = Client(UUID(int=99), 1, frozenset({tasks[1]}), lags=TaskLags(ends, {tasks[1]: RUNNING_OFFSET_SUM}))
    leaving = [
        Client(
            UUID(int=number),
            1,
            frozenset({tasks[0]} if number == 1 else ()),
            frozenset(lost),
            TaskLags(
                ends,
                dict.fromkeys(lost, 1_000_000 - lag) | ({tasks[0]: RUNNING_OFFSET_SUM} if number == 1 else {}),
            ),
        )
        for number, lag in enumerate(lags, 1)
    ]
    return Cluster((*leaving, staying), frozenset(tasks)), lost, [client.process_id for client in leaving]


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
def test_a_leaving_process_runs_a_task_of_a_dead_one_if_it_has_the_only_caught_up_replica(name):
    cluster, lost, leaving = only_the_leaving_have_it(0)
    config = AssignConfig(num_standby_replicas=1)
    assign = drain_assignor(ASSIGNORS[name], frozenset(leaving))
    plan = assign(cluster, config)
    assert [plan.owners[task] for task in lost] == leaving * 2
    assert check_actives_caught_up(cluster, config, plan) == []
    assert not plan.restores.keys() & set(lost)
    assert plan.placements[UUID(int=99)].warmup
    assert plan.probing
    rounds = converge(cluster, config, assign, dict.fromkeys(cluster.stateful, 1_000_000))
    assert not rounds[-1].plan.probing
    assert not rounds[-1].plan.placements[leaving[0]].copies


def test_the_most_caught_up_leaving_process_runs_it_and_the_first_of_equal_ones():
    for lags, keeper in (((9_000, 10, 8_000), 2), ((10, 10), 1), ((90_000, 10_000), 2)):
        cluster, lost, leaving = only_the_leaving_have_it(*lags)
        for clients in (cluster.clients, cluster.clients[::-1]):
            plan = drain_assignor(ASSIGNORS["least_movement"], frozenset(leaving))(
                Cluster(clients, cluster.stateful), AssignConfig()
            )
            assert {plan.owners[task].int for task in lost} == {keeper}


def test_a_leaving_process_takes_no_task_that_it_has_not_caught_up_on():
    cluster, lost, leaving = only_the_leaving_have_it(20_000)
    plan = drain_assignor(ASSIGNORS["high_availability"], frozenset(leaving))(cluster, AssignConfig())
    assert {plan.owners[task] for task in lost} == {UUID(int=99)}


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
@given(
    members=st.integers(3, 6),
    tasks=st.integers(1, 14),
    stateless=st.integers(0, 5),
    standbys=st.integers(0, 2),
    draining=st.integers(1, 2),
    dies_in_round=st.integers(0, 3),
    per_round=st.sampled_from([15_000, 60_000]),
)
def test_a_drain_ends_and_no_task_starts_cold_although_another_process_dies(
    name, members, tasks, stateless, standbys, draining, dies_in_round, per_round
):
    config = AssignConfig(num_standby_replicas=standbys)
    cluster = at_rest(members, tasks, config, stateless)
    leaving = frozenset(UUID(int=number + 1) for number in range(min(draining, members - 2)))
    assign = drain_assignor(ASSIGNORS[name], leaving)
    ends = dict.fromkeys(cluster.stateful, END)
    before = converge(cluster, config, assign, ends, offsets_per_round=per_round, rounds_max=dies_in_round)
    if before:
        cluster = apply_plan(before[-1].cluster, before[-1].plan, ends, per_round)
    cluster = replace(cluster, clients=cluster.clients[:-1])
    rounds = converge(cluster, config, assign, ends, offsets_per_round=per_round, rounds_max=200)
    assert not rounds[-1].plan.probing
    assert not any(rounds[-1].plan.placements[process].copies for process in leaving)
    for round_ in rounds:
        assert sorted(t for placed in round_.plan.placements.values() for t in placed.active) == sorted(cluster.tasks)
        lags = {client.process_id: client.lags for client in round_.cluster.clients}
        for task in cluster.stateful:
            caught_up = {process for process in lags if is_caught_up(lags[process][task], 10_000)}
            assert not caught_up or round_.plan.owners[task] in caught_up
