"""Least movement in numbers: the cost of growing and replacing, that it comes to rest, and that all properties hold."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    TaskLags,
    check,
    converge,
    is_instance_balanced,
    owner_changes_lower_bound,
)
from kstreams_assign.assign.least_movement.assignor import least_movement
from kstreams_assign.assign.least_movement.final_owners import final_owners
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.model import TaskId
from tests.samples import examples

END = 50_000
ALL = 10**9


def cluster_of(owners, standbys, members):
    """Return a group at rest: every replica is at the end of its changelog."""
    ends = dict.fromkeys(owners, END)
    clients = []
    for number in range(1, members + 1):
        me = UUID(int=number)
        active = frozenset(task for task, owner in owners.items() if owner == me)
        copies = frozenset(task for task, held in standbys.items() if me in held)
        sums = {**dict.fromkeys(active, -2), **dict.fromkeys(copies, END)}
        clients.append(Client(me, 1, active, copies, TaskLags(ends, sums), {}))
    return Cluster(tuple(clients), frozenset(owners)), ends


def rounds_of(cluster, ends, config):
    return converge(cluster, config, least_movement, ends, offsets_per_round=ALL, rounds_max=300)


def changes(before, rounds):
    total, owners = 0, dict(before)
    for round_ in rounds:
        total += sum(owners.get(task) not in (None, owner) for task, owner in round_.plan.owners.items())
        owners = round_.plan.owners
    return total


def made(cluster, rounds):
    """How many replicas are made that were not there before."""
    total, held = 0, {client.process_id: client.prev_active | client.prev_standby for client in cluster.clients}
    for round_ in rounds:
        for process, placed in round_.plan.placements.items():
            total += len(placed.copies - held[process])
            held[process] = placed.copies
    return total


def share_of_standbys(cluster, config):
    """The fewest standbys of the last member in a good layout."""
    held = PreviousState(cluster, config.acceptable_recovery_lag)
    return StandbyTable(held, final_owners(held), config.num_standby_replicas, None).limits.column_low[-1]


@pytest.mark.parametrize(("warmups", "rounds_max"), [(2, 10), (8, 4)])
def test_growing_from_10_to_11_members_with_200_tasks_changes_18_owners(warmups, rounds_max):
    owners = {TaskId(0, p): UUID(int=1 + p % 10) for p in range(200)}
    cluster, ends = cluster_of(owners, {}, 11)
    rounds = rounds_of(cluster, ends, AssignConfig(max_warmup_replicas=warmups))
    assert changes(owners, rounds) == 18
    assert len(rounds) <= rounds_max
    assert is_instance_balanced(rounds[-1].plan.owners, cluster.capacities)


@pytest.mark.parametrize("warmups", [2, 8])
def test_growing_with_standbys_changes_18_owners_too(warmups):
    owners = {TaskId(0, p): UUID(int=1 + p % 10) for p in range(200)}
    standbys = {task: {UUID(int=1 + (task.partition + 1 + task.partition // 10 % 9) % 10)} for task in owners}
    cluster, ends = cluster_of(owners, standbys, 11)
    config = AssignConfig(num_standby_replicas=1, max_warmup_replicas=warmups)
    rounds = rounds_of(cluster, ends, config)
    assert changes(owners, rounds) == 18
    assert made(cluster, rounds) == 18 + share_of_standbys(cluster, config) == 36, "only the new member restores"
    assert len(rounds) == 1 + -(-36 // warmups), "19 decisions with two warm-ups at a time"


def test_replacing_a_member_adopts_its_20_tasks_and_moves_no_other():
    owners = {TaskId(0, p): UUID(int=1 + p % 10) for p in range(200)}
    cluster, ends = cluster_of(owners, {}, 10)
    fresh = Client(UUID(int=99), 1, frozenset(), frozenset(), TaskLags(ends, {}), {})
    replaced = Cluster((*cluster.clients[1:], fresh), cluster.stateful)
    rounds = rounds_of(replaced, ends, AssignConfig())
    left = {task: owner for task, owner in owners.items() if owner != UUID(int=1)}
    assert {task: owner for task, owner in rounds[-1].plan.owners.items() if task in left} == left
    assert len(rounds) == 1


@settings(max_examples=examples(150))
@given(
    placed=st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=24),
    members=st.integers(min_value=1, max_value=6),
    standbys=st.integers(min_value=0, max_value=2),
    warmups=st.integers(min_value=1, max_value=4),
)
def test_any_group_reaches_balance_with_the_fewest_changes_and_rests(placed, members, standbys, warmups):
    owners = {TaskId(0, p): UUID(int=number) for p, number in enumerate(placed)}
    cluster, ends = cluster_of(owners, {}, members)
    config = AssignConfig(num_standby_replicas=standbys, max_warmup_replicas=warmups)
    rounds = rounds_of(cluster, ends, config)
    present = {task: owner for task, owner in owners.items() if owner.int <= members}
    bound = owner_changes_lower_bound(owners, cluster.capacities, owners.keys())
    assert changes(present, rounds) == bound
    assert is_instance_balanced(rounds[-1].plan.owners, cluster.capacities)
    assert not rounds[-1].plan.probing
    for round_ in rounds:
        assert check(round_.cluster, config, round_.plan) == []
