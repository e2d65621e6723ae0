"""Early probing: what a rebalance would bring now, and when it is worthwhile."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import ASSIGNORS, AssignConfig, Client, Cluster, TaskLags, apply_plan, converge
from kstreams_assign.group.probing import Gain, GainReported, GenerationStarted, Prober, Rejoin, Wait, compute_gain
from kstreams_assign.group.values import LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from tests.assign.small_clusters import ACCEPTABLE, END, TINY, small_clusters

TASKS = [TaskId(0, partition) for partition in range(6)]
ENDS = dict.fromkeys(TASKS, 50_000)
OLD, NEW = UUID(int=1), UUID(int=2)
CONFIG = AssignConfig(acceptable_recovery_lag=100, max_warmup_replicas=2)


def standing(name: str) -> LeaderState:
    """One process runs everything, and a second one without state has just joined: two warm-ups are under way."""
    runs = Client(OLD, 1, frozenset(TASKS), lags=TaskLags(ENDS, dict.fromkeys(TASKS, RUNNING_OFFSET_SUM)))
    cluster = Cluster((runs, Client(NEW, 1, lags=TaskLags(ENDS, {}))), frozenset(TASKS))
    plan = ASSIGNORS[name](cluster, CONFIG)
    assert len(plan.placements[NEW].warmup) == 2
    return LeaderState(cluster, plan, CONFIG, ASSIGNORS[name])


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
def test_the_gain_is_what_the_assignor_would_change(name):
    now = standing(name)
    first, second = sorted(now.plan.placements[NEW].warmup)
    assert compute_gain(now, {}, ENDS) == Gain(0, 0)
    assert compute_gain(now, {NEW: {first: 10, second: 10}}, ENDS) == Gain(0, 2)
    assert compute_gain(now, {NEW: {first: 49_900, second: 10}}, ENDS) == Gain(1, 1)
    assert compute_gain(now, {NEW: {first: 50_000, second: 49_950}}, ENDS) == Gain(2, 0)
    grown = {task: end + 1_000 for task, end in ENDS.items()}
    assert compute_gain(now, {NEW: {first: 50_000, second: 49_950}}, grown) == Gain(0, 2)


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
def test_once_all_replicas_have_caught_up_the_gain_is_the_next_rounds_owner_changes(name):
    now = standing(name)
    published = {client.process_id: ENDS for client in now.cluster.clients}
    rounds = converge(apply_plan(now.cluster, now.plan, ENDS), CONFIG, now.assign, ENDS)
    assert compute_gain(now, published, ENDS) == Gain(len(rounds[0].changed), 0)


def stateless_scale_out(name: str) -> LeaderState:
    """Two processes share two stateful tasks with a standby each and six stateless tasks; a third process joins."""
    stateful, stateless = frozenset(TASKS[:2]), frozenset(TaskId(1, partition) for partition in range(6))
    ends = {task: ENDS[task] for task in TASKS[:2]}
    config = AssignConfig(acceptable_recovery_lag=100, num_standby_replicas=1)
    members = tuple(Client(process, lags=TaskLags(ends, {})) for process in (OLD, NEW))
    last = converge(Cluster(members, stateful, stateless), config, ASSIGNORS[name], ends)[-1]
    rest = apply_plan(last.cluster, last.plan, ends)
    cluster = replace(rest, clients=(*rest.clients, Client(UUID(int=3), lags=TaskLags(ends, {}))))
    return LeaderState(cluster, ASSIGNORS[name](cluster, config), config, ASSIGNORS[name])


def test_a_warm_up_that_becomes_a_standby_is_a_gain_although_no_owner_changes():
    now = stateless_scale_out("least_movement")
    ((process, warmup),) = [(p, placed.warmup) for p, placed in now.plan.placements.items() if placed.warmup]
    ends = {task: ENDS[task] for task in now.cluster.stateful}
    assert compute_gain(now, {process: dict.fromkeys(warmup, 10)}, ends) == Gain(0, 1)
    settled = compute_gain(now, {process: dict.fromkeys(warmup, 49_950)}, ends)
    assert settled == Gain(0, 0, standbys=1)
    prober = Prober(floor_ms=10_000)
    prober.handle(GenerationStarted(), 0)
    assert prober.handle(GainReported(settled), 9_999) == Wait(10_000)
    assert prober.handle(GainReported(settled), 10_000) == Rejoin(
        "probing rebalance, early: 1 warm-ups can become standbys"
    )


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
@pytest.mark.parametrize("acceptable", [ACCEPTABLE, TINY])
def test_a_due_probe_has_a_gain_once_all_replicas_have_caught_up(name, acceptable):
    """Otherwise the group would wait for the probing interval in vain."""
    seen = 0
    for small in small_clusters(3, (0, 0), 1, "-PFR", acceptable=acceptable):
        cluster, ends = small.cluster(), dict.fromkeys(small.tasks, END)
        plan = ASSIGNORS[name](cluster, small.config)
        if plan.probing:
            seen += 1
            now = LeaderState(cluster, plan, small.config, ASSIGNORS[name])
            sums = {client.process_id: ends for client in cluster.clients}
            assert compute_gain(now, sums, dict.fromkeys(cluster.stateful, END)).changes, small
    assert (seen > 0) == (acceptable == ACCEPTABLE)


def test_a_rebalance_is_requested_once_after_the_floor_if_there_is_a_gain():
    prober = Prober(floor_ms=10_000)
    assert prober.handle(GainReported(Gain(5, 0)), 0) == Wait(), "no decision yet"
    prober.handle(GenerationStarted(), 1_000)
    assert prober.handle(GainReported(Gain(0, 2)), 20_000) == Wait()
    prober.handle(GenerationStarted(), 30_000)
    assert prober.handle(GainReported(Gain(2, 0)), 31_000) == Wait(40_000)
    assert prober.handle(GainReported(Gain(2, 0)), 39_999) == Wait(40_000)
    assert isinstance(prober.handle(GainReported(Gain(2, 0)), 40_000), Rejoin)
    assert prober.handle(GainReported(Gain(2, 0)), 50_000) == Wait()


def test_the_wait_for_replicas_under_way_is_twice_the_time_so_far():
    prober = Prober(floor_ms=10_000)
    prober.handle(GenerationStarted(), 0)
    assert prober.handle(GainReported(Gain(1, 1)), 30_000) == Wait(90_000)
    assert prober.handle(GainReported(Gain(1, 1)), 89_000) == Wait(90_000)
    assert isinstance(prober.handle(GainReported(Gain(1, 1)), 90_000), Rejoin)
    prober.handle(GenerationStarted(), 0)
    assert prober.handle(GainReported(Gain(1, 1)), 30_000) == Wait(90_000)
    answer = prober.handle(GainReported(Gain(2, 0)), 31_000)
    assert isinstance(answer, Rejoin)
    assert "2 tasks" in answer.reason


@given(st.integers(1, 100), st.integers(2, 30), st.integers(1_000, 20_000))
def test_replicas_that_catch_up_in_sequence_are_handed_over_together(pace_s, copies, floor_ms):
    """A warm-up queue: each replica takes as long as the one before."""
    prober = Prober(floor_ms)
    prober.handle(GenerationStarted(), 0)
    for ended in range(1, copies):
        assert isinstance(prober.handle(GainReported(Gain(ended, copies - ended)), ended * pace_s * 1_000), Wait)
    assert prober.handle(GainReported(Gain(copies, 0)), max(floor_ms, copies * pace_s * 1_000)) != Wait()


news = st.lists(
    st.tuples(st.integers(0, 30_000), st.builds(Gain, st.integers(0, 9), st.integers(0, 9))), min_size=1, max_size=40
)


@given(news, st.integers(1_000, 60_000))
def test_a_generation_is_left_at_most_once_and_never_before_its_floor(steps, floor_ms):
    """For any reports at any times."""
    prober, now, asked = Prober(floor_ms), 5_000, []
    prober.handle(GenerationStarted(), now)
    for passed, gain in steps:
        now += passed
        answer = prober.handle(GainReported(gain), now)
        if isinstance(answer, Rejoin):
            asked.append(now)
            assert gain.moves > 0
        elif answer.until_ms is not None:
            assert answer.until_ms > now
    assert len(asked) <= 1
    assert all(at >= 5_000 + floor_ms for at in asked)
