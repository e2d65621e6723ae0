"""The learner assignor: the draft's walk-through table by table, and what holds for every group."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    Placement,
    TaskLags,
    apply_plan,
    check,
    converge,
    is_instance_balanced,
    owner_changes,
    owner_changes_lower_bound,
)
from kstreams_assign.assign.learner import LearnerMarks, learn, learner
from kstreams_assign.assign.should_rebalance import should_rebalance
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config, read_longs
from tests.assign.problems import assign_problem
from tests.scenarios.learner_group import LearnerGroup

S = [UUID(int=number) for number in range(6)]
T = [TaskId(0, number) for number in range(6)]
END = 50_000
CONFIG = AssignConfig()


def table(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def test_the_walk_through_of_the_draft_table_by_table():
    """Where this differs from the seed's text, ``tests/scenarios/learner_scale_up.txt`` says so and why."""
    group = LearnerGroup()
    group.start("S1[T1, T2], S2[T3, T4], S3[T5]")
    group.enter("S4")  # first rebalance
    assert group.assign() == table("""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])""")
    group.enter("S5")  # second rebalance: S4 is not ready
    assert group.join() == table("""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [])""")
    assert group.assign() == table("""
        S1(assigned: [T1, T2], revoked: [], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [T3])""")
    group.learned("S4", "T1")  # third rebalance: S4 is ready, S5 is not
    assert group.join() == table("""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [], revoked: [], learning: [T1])
        S5(assigned: [], revoked: [], learning: [T3])""")
    assert group.assign() == table("""
        S1(assigned: [T2], revoked: [T1], learning: [])
        S2(assigned: [T3, T4], revoked: [], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [], revoked: [], learning: [T3])""")
    assert group.decided.plan.probing
    group.learned("S5", "T3")  # fourth rebalance: S5 is ready
    assert group.join() == table("""
        S1(assigned: [T2], revoked: [], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [], revoked: [], learning: [T3])""")
    assert group.assign() == table("""
        S1(assigned: [T2], revoked: [], learning: [])
        S2(assigned: [T4], revoked: [T3], learning: [])
        S3(assigned: [T5], revoked: [], learning: [])
        S4(assigned: [T1], revoked: [], learning: [])
        S5(assigned: [T3], revoked: [], learning: [])""")
    assert not group.decided.plan.probing
    assert group.being_learned == dict.fromkeys(group.marks, frozenset())


def learning_group() -> LearnerGroup:
    """Return the draft's group after its first rebalance: S4 learns T1."""
    group = LearnerGroup()
    group.start("S1[T1, T2], S2[T3, T4], S3[T5]")
    group.enter("S4")
    group.assign()
    return group


def test_when_a_learner_leaves_the_owner_keeps_the_task_and_another_process_learns():
    group = learning_group()
    group.leave("S4")
    group.enter("S5")
    assert "S1(assigned: [T2], revoked: [T1], learning: [])" in group.join()
    text = group.assign()
    assert "S1(assigned: [T1, T2], revoked: [], learning: [])" in text
    assert "S5(assigned: [], revoked: [], learning: [T1])" in text


def test_a_learner_takes_over_at_once_when_the_owner_has_left():
    group = learning_group()
    group.leave("S1")
    group.join()
    assert group.assign()[-1].startswith("S4(assigned: [T1")


def process(number: int, sums: dict[TaskId, int], prev_standby: tuple[TaskId, ...] = (), **more) -> Client:
    running = frozenset(task for task, reported in sums.items() if reported == -2)
    lags = TaskLags(dict.fromkeys(T[:4], END), sums)
    return Client(
        S[number],
        prev_active=running | more.pop("stateless", frozenset()),
        prev_standby=frozenset(prev_standby),
        lags=lags,
    )


def test_a_learner_goes_on_with_the_task_it_has_begun():
    cluster = Cluster((process(1, dict.fromkeys(T[:4], -2)), process(2, {T[2]: 0}, (T[2],))), frozenset(T[:4]))
    plan = learner(cluster, AssignConfig(max_warmup_replicas=1))
    assert plan.placements[S[2]] == Placement(warmup=frozenset([T[2]]))


def test_a_revoked_task_returns_to_its_owner_and_not_to_the_next_best():
    """All are caught up and nothing is out of balance."""
    tasks = frozenset(T[1:6])
    cluster = Cluster(tuple(Client(p, lags=dict.fromkeys(tasks, 0)) for p in S[1:3]), tasks)
    joined = {S[1]: LearnerMarks(frozenset(T[4:6])), S[2]: LearnerMarks(frozenset(T[2:4]), frozenset(T[1:2]))}
    decided = learn(cluster, CONFIG, joined)
    assert decided.marks == {S[1]: LearnerMarks(frozenset(T[4:6])), S[2]: LearnerMarks(frozenset(T[1:4]))}


def test_an_owner_that_still_restores_gives_way_to_a_process_with_less_lag():
    clients = (Client(S[1], prev_active=frozenset(T[:1]), lags={T[0]: 40_000}), Client(S[2], lags={T[0]: 30_000}))
    assert learner(Cluster(clients, frozenset(T[:1])), CONFIG).owners == {T[0]: S[2]}


def test_new_tasks_are_dealt_by_threads_before_anything_is_learned():
    """No process has state, so all lags are equal; nothing has to move after the first plan."""
    end = dict.fromkeys(T[:4], END)
    clients = (Client(S[1], 1, lags=TaskLags(end, {})), Client(S[2], 3, lags=TaskLags(end, {})))
    plan = learner(Cluster(clients, frozenset(end)), CONFIG)
    assert [len(plan.placements[p].active) for p in S[1:3]] == [1, 3]
    assert not plan.probing


def test_the_warmest_copy_stays_as_standby():
    clients = (process(1, {T[0]: -2}), process(2, {T[0]: 100}), process(3, {T[0]: 200}))
    clients = tuple(replace(client, prev_standby=frozenset(T[:1]) - client.prev_active) for client in clients)
    placed = learner(Cluster(clients, frozenset(T[:1])), AssignConfig(num_standby_replicas=1)).placements
    assert placed[S[3]].standby == {T[0]}


def test_stateless_tasks_stay_where_they_are():
    stateless = frozenset(TaskId(1, partition) for partition in range(2))
    clients = (
        process(1, {T[0]: -2}, stateless=frozenset([TaskId(1, 1)])),
        process(2, {T[1]: -2}, stateless=frozenset([TaskId(1, 0)])),
    )
    assert learner(Cluster(clients, frozenset(T[:2]), stateless), CONFIG).placements[S[1]].active == {
        T[0],
        TaskId(1, 1),
    }


def test_learners_stay_within_the_budget_and_only_learned_tasks_are_marked():
    cluster = Cluster((process(1, dict.fromkeys(T[:4], -2)), process(2, {})), frozenset(T[:4]))
    for budget in (1, 2, 3):
        decided = learn(cluster, AssignConfig(max_warmup_replicas=budget), {S[1]: LearnerMarks(frozenset(T[:4]))})
        learning = decided.plan.placements[S[2]].warmup
        assert len(learning) == min(budget, 2)
        assert decided.being_learned == {S[1]: learning, S[2]: frozenset()}
        assert decided.plan.probing


def test_a_standby_on_the_destination_is_the_learner():
    """The KIP's trouble with two kinds of copies: the one copy stays a standby, and its task is being learned."""
    cluster = Cluster((process(1, {T[0]: -2, T[1]: -2}), process(2, {T[0]: 0, T[1]: 0})), frozenset(T[:2]))
    decided = learn(cluster, AssignConfig(num_standby_replicas=1), {S[1]: LearnerMarks(frozenset(T[:2]))})
    assert decided.plan.placements[S[2]] == Placement(standby=frozenset(T[:2]))
    assert decided.being_learned[S[1]] == {T[0]}


def test_a_warm_standby_is_kept_beside_the_learner():
    clients = (
        process(1, {T[0]: -2, T[1]: -2}),
        process(2, {T[2]: -2, T[0]: 100, T[1]: 100}, (T[0], T[1])),
        process(3, {T[0]: 200}, (T[0],)),
    )
    cluster = Cluster(clients, frozenset(T[:3]))
    placed = learner(cluster, AssignConfig(num_standby_replicas=1)).placements
    assert placed[S[2]].standby == {T[0], T[1]}
    assert placed[S[3]].warmup == {T[0]}


def test_stateless_tasks_move_once_and_without_a_learner():
    """They are laid out beside the target of the stateful tasks, so tasks being learned do not count twice."""
    stateless = frozenset(TaskId(1, partition) for partition in range(2))
    cluster = Cluster(
        (process(1, dict.fromkeys(T[:2], -2), stateless=stateless), process(2, {})), frozenset(T[:2]), stateless
    )
    plan = learner(cluster, CONFIG)
    assert plan.placements[S[2]] == Placement(active=frozenset([TaskId(1, 1)]), warmup=frozenset([T[0]]))
    later = learner(apply_plan(cluster, plan, dict.fromkeys(T[:2], END)), CONFIG)
    assert later.placements[S[2]].active == {TaskId(1, 1), T[0]}


def test_marks_read_like_the_seed():
    marks = LearnerMarks(frozenset(T[1:3]), learning=frozenset([T[4]]))
    assert str(marks) == "(assigned: [0_1, 0_2], revoked: [], learning: [0_4])"


@pytest.mark.parametrize("clients", [(), (Client(S[1]),)])
def test_a_group_without_tasks_has_an_empty_plan(clients):
    plan = learner(Cluster(clients, frozenset()), CONFIG)
    assert not plan.probing
    assert all(not placed.copies for placed in plan.placements.values())


@given(seed=st.integers(0, 2**32), clients=st.integers(1, 8), tasks=st.integers(0, 30))
def test_every_plan_has_the_properties_and_the_group_converges(seed, clients, tasks):
    request = assign_problem(Random(seed), clients, tasks)
    cluster, config = read_cluster(request), read_config(request)
    end = read_longs(request.get("task_end_offset_sums", dict.fromkeys(request["stateful_tasks"], 100)))
    rounds = converge(cluster, config, learner, end, rounds_max=2 * tasks + 3)
    assert not rounds[-1].plan.probing
    for round_ in rounds:
        assert check(round_.cluster, config, round_.plan) == []
        assert_each_move_has_a_single_learner(round_.plan, cluster.stateful)
    last = rounds[-1]
    owners = {task: owner for task, owner in last.plan.owners.items() if task in cluster.stateful}
    assert is_instance_balanced(owners, cluster.capacities)
    following = apply_plan(last.cluster, last.plan, end)
    assert learner(following, config) == last.plan
    assert not should_rebalance(following, owners, config)


def assert_each_move_has_a_single_learner(plan, stateful):
    learned = [task for placed in plan.placements.values() for task in placed.warmup]
    assert len(learned) == len(set(learned))
    assert set(learned) <= stateful


@given(seed=st.integers(0, 2**32))
def test_a_running_group_changes_the_fewest_owners_on_its_way_to_balance(seed):
    random = Random(seed)
    processes = [UUID(int=number) for number in range(random.randint(1, 6))]
    tasks = [TaskId(0, partition) for partition in range(random.randint(1, 24))]
    end = {task: random.choice([0, 5_000, 90_000]) for task in tasks}
    owners = {task: random.choice(processes) for task in tasks}
    capacities = {process: random.choice([1, 1, 2]) for process in processes}
    owned = {p: frozenset(task for task in tasks if owners[task] == p) for p in processes}
    clients = (Client(p, capacities[p], owned[p], lags=TaskLags(end, dict.fromkeys(owned[p], -2))) for p in processes)
    rounds = converge(Cluster(tuple(clients), frozenset(tasks)), CONFIG, learner, end)
    changed, _ = owner_changes(owners, rounds[-1].plan.owners, processes)
    assert sum(len(round_.changed) for round_ in rounds) == len(changed)
    assert len(changed) == owner_changes_lower_bound(owners, capacities, tasks)
