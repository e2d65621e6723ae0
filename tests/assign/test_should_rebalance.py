"""KIP-441's draft, step by step: ranks, a balanced proposal, movements, and which of them are available."""

from __future__ import annotations

from itertools import product
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    TaskLags,
    is_instance_balanced,
    owner_changes_lower_bound,
)
from kstreams_assign.assign.should_rebalance import (
    Movement,
    available_movements,
    is_available,
    movements,
    propose_balanced,
    rank_candidates,
    should_rebalance,
)
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId

P = [UUID(int=number) for number in range(1, 5)]
A, B, C, GONE = P
T = [TaskId(0, partition) for partition in range(6)]
END = dict.fromkeys(T, 100_000)
CONFIG = AssignConfig()


def group(*sums: dict[TaskId, int], threads: tuple[int, ...] = (1, 1, 1, 1)) -> Cluster:
    """Return processes A, B, C with what they report; all tasks up to the highest reported one are stateful."""
    tasks = T[: 1 + max(task.partition for reported in sums for task in reported)]
    end = {task: END[task] for task in tasks}
    clients = (Client(p, t, lags=TaskLags(end, s)) for p, s, t in zip(P, sums, threads, strict=False))
    return Cluster(tuple(clients), frozenset(tasks))


def running(*tasks: TaskId) -> dict[TaskId, int]:
    return dict.fromkeys(tasks, -2)


def owners_of(cluster: Cluster) -> dict[TaskId, UUID]:
    return {t: c.process_id for c in cluster.clients for t in cluster.stateful if c.lags[t] == -2}


def test_all_processes_rank_for_every_task():
    """Running or within the acceptable lag: 0. Else the lag. No state: the whole changelog. Unknown: last."""
    cluster = group(running(T[0]), {T[0]: 90_000}, {T[0]: 89_999}, {T[0]: -3})
    assert rank_candidates(cluster, CONFIG) == {T[0]: {0: [A, B], 10_001: [C], 2**63 - 1: [GONE]}}
    assert rank_candidates(group(running(T[0]), {}), CONFIG) == {T[0]: {0: [A], 100_000: [B]}}


def test_a_process_without_a_lag_is_refused():
    with pytest.raises(ConfigError, match="no entry for stateful task 0_0"):
        rank_candidates(Cluster((Client(A),), frozenset(T[:1])), CONFIG)


def test_a_cold_new_process_is_no_reason_and_a_warm_one_is():
    cold = group(running(T[0], T[1]), {})
    warm = group(running(T[0], T[1]), {T[1]: 95_000})
    assert not should_rebalance(cold, owners_of(cold), CONFIG)
    assert should_rebalance(warm, owners_of(warm), CONFIG)
    assert available_movements(warm, owners_of(warm), CONFIG) == [Movement(T[1], A, B)]


def test_a_balanced_group_is_left_alone_however_warm_the_others_are():
    everything = dict.fromkeys(T[:3], 100_000)
    cluster = group(everything | running(T[0], T[1]), everything | running(T[2]))
    assert not should_rebalance(cluster, owners_of(cluster), CONFIG)


def test_a_position_that_is_not_known_is_not_caught_up_unless_every_lag_is_accepted():
    cluster = group(running(T[0], T[1]), {T[1]: -3})
    assert not should_rebalance(cluster, owners_of(cluster), CONFIG)
    assert should_rebalance(cluster, owners_of(cluster), AssignConfig(acceptable_recovery_lag=2**63 - 1))


def test_the_available_movement_is_proposed_regardless_of_its_source():
    """A and B may each give one task away; only B's is warm on C."""
    cluster = group(running(T[0], T[1]), running(T[2], T[3]), {T[3]: 100_000})
    assert available_movements(cluster, owners_of(cluster), CONFIG) == [Movement(T[3], B, C)]


def test_a_larger_balance_factor_allows_a_larger_difference():
    cluster = group(running(*T[:4]), running(T[4]), dict.fromkeys(T[:5], 100_000))
    assert should_rebalance(cluster, owners_of(cluster), CONFIG, balance_factor=3)
    assert not should_rebalance(cluster, owners_of(cluster), CONFIG, balance_factor=4)
    with pytest.raises(ConfigError, match="balance_factor is 0"):
        should_rebalance(cluster, owners_of(cluster), CONFIG, balance_factor=0)


def test_with_a_balance_factor_the_proposal_stops_as_soon_as_the_difference_is_allowed():
    cluster = group(running(*T[:6]), {})
    for factor, moved in [(1, 3), (2, 2), (3, 2), (4, 1), (5, 1), (6, 0)]:
        proposed = propose_balanced(rank_candidates(cluster, CONFIG), cluster.capacities, owners_of(cluster), factor)
        assert list(proposed.values()).count(B) == moved, factor


def test_shares_are_by_threads():
    everything = dict.fromkeys(T, 100_000)
    for threads, unfair in [((2, 1), False), ((1, 1), True)]:
        cluster = group(everything | running(*T[:4]), everything | running(*T[4:]), threads=threads)
        assert should_rebalance(cluster, owners_of(cluster), CONFIG) is unfair


def test_a_task_without_an_owner_goes_to_the_warmest_process_with_room():
    cluster = group(running(T[1]), {T[0]: 50_000}, {T[0]: 100_000})
    for owners in ({T[1]: A}, {T[1]: A, T[0]: GONE}):
        assert available_movements(cluster, owners, CONFIG) == [Movement(T[0], None, C)]
        assert propose_balanced(rank_candidates(cluster, CONFIG), cluster.capacities, owners) == {T[0]: C, T[1]: A}


def test_tasks_without_an_owner_displace_no_other_task():
    """A and B are warm, but only one share may round up: the third task goes to C, and T0 stays."""
    candidates = {task: {0: [A, B], 9: [C]} for task in T[:4]}
    proposed = propose_balanced(candidates, dict.fromkeys((A, B, C), 1), {T[0]: B})
    assert proposed == {T[0]: B, T[1]: A, T[2]: A, T[3]: C}


def test_movements_that_have_begun_come_after_the_available_ones():
    cluster = group(running(*T[:4]), {T[0]: 60_000, T[1]: 50_000}, {})
    candidates = rank_candidates(cluster, CONFIG)
    for begun, task in [((), T[0]), ([(T[1], B)], T[1]), ([(T[3], B)], T[3])]:
        proposed = propose_balanced(candidates, {A: 1, B: 1}, owners_of(cluster), 2, begun)
        assert [move.task for move in movements(owners_of(cluster), proposed)] == [task]
    ready = rank_candidates(group(running(*T[:4]), {T[0]: 60_000, T[2]: 95_000}), CONFIG)
    proposed = propose_balanced(ready, {A: 1, B: 1}, owners_of(cluster), 2, [(T[1], B)])
    assert movements(owners_of(cluster), proposed) == [Movement(T[2], A, B)]


def twin_says(cluster: Cluster, owners: dict[TaskId, UUID]) -> bool:
    """Return whether any balanced assignment with the fewest movements has an available one: the slow, obvious twin."""
    candidates = rank_candidates(cluster, CONFIG)
    tasks = sorted(cluster.stateful)
    available_by_length: dict[int, bool] = {}
    for choice in product(cluster.capacities, repeat=len(tasks)):
        proposed = dict(zip(tasks, choice, strict=True))
        if is_instance_balanced(proposed, cluster.capacities):
            moves = movements(owners, proposed)
            available = any(is_available(move, candidates) for move in moves)
            available_by_length[len(moves)] = available_by_length.get(len(moves), False) or available
    return available_by_length[min(available_by_length)]


@given(seed=st.integers(0, 2**32))
def test_the_answer_is_yes_exactly_when_a_shortest_proposal_has_an_available_movement(seed):
    random = Random(seed)
    threads = tuple(random.choice([1, 1, 1, 2, 3]) for _ in range(random.randint(1, 3)))
    tasks = T[: random.randint(1, 6)]
    owners = {task: random.choice(P[: len(threads)]) for task in tasks}
    warmth = random.choice([0.1, 0.3, 0.6])
    sums = [
        {t: -2 if owners[t] == p else 100_000 if random.random() < warmth else 50_000 for t in tasks}
        for p in P[: len(threads)]
    ]
    cluster = group(*sums, threads=threads)
    assert should_rebalance(cluster, owners, CONFIG) is twin_says(cluster, owners)


@given(seed=st.integers(0, 2**32))
def test_the_proposal_is_balanced_with_the_fewest_movements(seed):
    random = Random(seed)
    processes = [UUID(int=number) for number in range(random.randint(1, 8))]
    capacities = {process: random.choice([1, 1, 2, 4]) for process in processes}
    tasks = [TaskId(random.randrange(3), partition) for partition in range(random.randint(1, 40))]
    few = random.sample(processes, random.randint(1, len(processes)))
    owners = {task: random.choice(few) for task in tasks if random.random() < 0.9}
    candidates = {}
    for task in sorted(tasks):
        random.shuffle(processes)
        cut = random.randint(0, len(processes))
        candidates[task] = {0: processes[:cut], 7: processes[cut:]}
    proposed = propose_balanced(candidates, capacities, owners)
    changed = [move for move in movements(owners, proposed) if move.source is not None]
    assert proposed.keys() == set(tasks)
    assert is_instance_balanced(proposed, capacities)
    assert len(changed) == owner_changes_lower_bound(owners, capacities, tasks)
