"""While a process restarts, only its tasks without a caught-up replica wait; when it is back, it has all of them."""

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
    Plan,
    TaskLags,
    await_assignor,
    check,
    find_waiting,
    give_back,
)
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from tests.assign.test_drain import END, at_rest

ACCEPTABLE = 10_000
CONFIG = AssignConfig()
SUMS = {"runs": RUNNING_OFFSET_SUM, "near": END - ACCEPTABLE, "behind": END - ACCEPTABLE - 1, "empty": 0}


@st.composite
def groups(draw: st.DrawFn) -> tuple[Cluster, tuple[Client, ...]]:
    """Return a group of present processes, and awaited ones: each task runs on one process or on none."""
    present, absent = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    stateful = [TaskId(0, number) for number in range(draw(st.integers(0, 6)))]
    stateless = [TaskId(1, number) for number in range(draw(st.integers(0, 3)))]
    ends = dict.fromkeys(stateful, END)
    owner = {task: draw(st.integers(-1, present + absent - 1)) for task in (*stateful, *stateless)}
    clients = []
    for number in range(present + absent):
        active = frozenset(task for task, process in owner.items() if process == number)
        held = {task: draw(st.sampled_from(["near", "behind", "empty"])) for task in stateful if draw(st.booleans())}
        sums = {task: SUMS[how] for task, how in held.items()} | {
            task: SUMS[draw(st.sampled_from(["runs", "runs", "near", "behind"]))] for task in active & ends.keys()
        }
        threads = draw(st.integers(1, 2))
        lags = TaskLags(ends, sums)
        clients.append(Client(UUID(int=number + 1), threads, active, frozenset(sums) - active, lags))
    cluster = Cluster(tuple(clients[:present]), frozenset(stateful), frozenset(stateless))
    return cluster, tuple(clients[present:])


def waiting_by_the_book(cluster: Cluster, awaited: tuple[Client, ...]) -> dict[TaskId, UUID]:
    """The twin: asks about each task and each process, in the words of the rule."""
    waiting = {}
    for task in cluster.tasks:
        has_state = task in cluster.stateful
        is_owned = any(task in client.prev_active for client in cluster.clients)
        has_heir = any(0 <= c.lags[task] <= ACCEPTABLE or c.lags[task] == -2 for c in cluster.clients if has_state)
        for process in awaited:
            if task in process.prev_active and has_state and not is_owned and not has_heir:
                waiting[task] = process.process_id
    return waiting


@given(groups())
def test_only_what_ran_there_and_has_no_other_place_waits(group):
    cluster, awaited = group
    assert find_waiting(cluster, CONFIG, awaited) == waiting_by_the_book(cluster, awaited)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(groups(), st.integers(0, 2))
def test_every_assignor_waits_for_these_and_places_all_others(name, group, standbys):
    cluster, awaited = group
    config = AssignConfig(num_standby_replicas=standbys)
    plan = await_assignor(ASSIGNORS[name], awaited)(cluster, config)
    waiting = waiting_by_the_book(cluster, awaited)
    assert plan.waiting == waiting
    assert plan.owners.keys() == cluster.tasks - waiting.keys()
    assert plan.placements.keys() == cluster.capacities.keys()
    if name in ("least_movement", "high_availability"):
        assert check(cluster, config, plan) == []


@given(groups())
def test_without_awaited_processes_nothing_changes(group):
    cluster, _ = group
    plan = await_assignor(ASSIGNORS["least_movement"], ())(cluster, CONFIG)
    assert plan == ASSIGNORS["least_movement"](cluster, CONFIG)


def away(cluster: Cluster, leaving: UUID) -> tuple[Cluster, Client]:
    """Return the group without this process, and the process as it was."""
    gone = next(client for client in cluster.clients if client.process_id == leaving)
    return replace(cluster, clients=tuple(c for c in cluster.clients if c is not gone)), gone


def after(cluster: Cluster, plan: Plan) -> Cluster:
    """Return the group at its next rebalance; what the plan does not place is no longer held."""
    ends = dict.fromkeys(cluster.stateful, END)
    clients = []
    for client in cluster.clients:
        placed = plan.placements[client.process_id]
        sums = dict.fromkeys(placed.active & ends.keys(), RUNNING_OFFSET_SUM)
        sums |= {task: END - client.lags[task] for task in placed.standby | placed.warmup if client.lags[task] >= 0}
        standby = placed.standby | placed.warmup
        clients.append(replace(client, prev_active=placed.active, prev_standby=standby, lags=TaskLags(ends, sums)))
    return replace(cluster, clients=tuple(clients))


@pytest.mark.parametrize("name", ["least_movement", "high_availability"])
@given(members=st.integers(2, 6), tasks=st.integers(0, 14), stateless=st.integers(0, 5), standbys=st.integers(0, 2))
def test_a_group_at_rest_that_restarts_one_process_ends_as_it_began(name, members, tasks, stateless, standbys):
    config = AssignConfig(num_standby_replicas=standbys)
    cluster = at_rest(members, tasks, config, stateless)
    before = {task: client.process_id for client in cluster.clients for task in client.prev_active}
    rest, gone = away(cluster, UUID(int=1))
    assign = ASSIGNORS[name]
    meanwhile = await_assignor(assign, [gone])(rest, config)
    ran_elsewhere = {task: owner for task, owner in before.items() if owner != gone.process_id}
    if name == "least_movement":
        assert {task: meanwhile.owners[task] for task in ran_elsewhere} == ran_elsewhere
        assert not any(placed.warmup for placed in meanwhile.placements.values())
        for client in rest.clients:  # no replica is made in place of those that will be back
            placed = meanwhile.placements[client.process_id]
            assert placed.copies & cluster.stateful <= client.prev_active | client.prev_standby

    ends = dict.fromkeys(cluster.stateful, END)
    had = (gone.prev_active & cluster.stateful) | gone.prev_standby
    lag = ACCEPTABLE // 2
    back = replace(
        gone,
        prev_active=frozenset(),
        prev_standby=frozenset(had),
        lags=TaskLags(ends, dict.fromkeys(had, END - lag)),
    )
    rejoined = after(rest, meanwhile)
    rejoined = replace(rejoined, clients=(back, *rejoined.clients))
    claimed = give_back(rejoined, {gone.process_id: gone.prev_active}, ACCEPTABLE)
    plan = assign(claimed, config)
    if name == "least_movement":
        assert plan.owners == before
        assert not plan.probing


def test_a_task_that_runs_elsewhere_goes_back_only_to_a_caught_up_process():
    task = TaskId(0, 0)
    ends = {task: END}
    heir = Client(UUID(int=1), 1, frozenset({task}), frozenset(), TaskLags(ends, {task: RUNNING_OFFSET_SUM}))
    for behind, goes_back in ((ACCEPTABLE, True), (ACCEPTABLE + 1, False)):
        back = Client(UUID(int=2), 1, frozenset(), frozenset({task}), TaskLags(ends, {task: END - behind}))
        cluster = give_back(Cluster((heir, back), frozenset({task})), {back.process_id: frozenset({task})}, ACCEPTABLE)
        owner = next(client for client in cluster.clients if task in client.prev_active)
        assert (owner.process_id == back.process_id) is goes_back
