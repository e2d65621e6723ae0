"""A draining process keeps the tasks that no other process has caught up on, and in the end it has none."""

from __future__ import annotations

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
    check,
    converge,
    drain_assignor,
    owner_changes,
    previous_owners,
)
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
