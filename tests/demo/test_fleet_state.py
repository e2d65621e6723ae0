"""The fleet_state: what is believed of the group after which events."""

from __future__ import annotations

import pytest

from kstreams_assign.demo.fleet_state import Takeover
from kstreams_assign.group.member import PROBE
from tests.demo.events import (
    adopted,
    assigned,
    decision,
    exited,
    fleet_state_of,
    joining,
    single_worker,
    started,
    status,
)


def test_a_group_that_adopted_its_leaders_last_decision_is_settled_and_converged():
    fleet_state = fleet_state_of(*single_worker())
    assert fleet_state.settled
    assert fleet_state.converged
    assert fleet_state.owners == {"0_0": "w1"}


@pytest.mark.parametrize(
    "facts",
    [{"withheld": ["0_0"]}, {"members": 2}, {"kind": "refused"}],
    ids=["withheld", "member missing", "refused"],
)
def test_a_decision_that_leaves_something_open_is_not_settled(facts):
    assert not fleet_state_of(*single_worker(**facts)).settled


def test_a_group_that_will_probe_is_settled_but_not_converged():
    fleet_state = fleet_state_of(*single_worker(next_probe_ms=60_000))
    assert fleet_state.settled
    assert not fleet_state.converged
    assert fleet_state.next_probe_ms == 60_000


def test_a_member_that_has_not_adopted_yet_keeps_the_group_unsettled():
    events = [*single_worker(members=2), started("w2"), assigned("w2", 1)]
    assert not fleet_state_of(*events).settled
    assert fleet_state_of(*events, adopted("w2", 1)).settled


def test_a_decision_without_a_generation_is_not_taken_for_the_one_before():
    fleet_state = fleet_state_of(*single_worker(), decision("w1", at=60))
    assert not fleet_state.settled


def test_the_decision_of_another_leader_does_not_get_the_generation_of_a_follower():
    fleet_state = fleet_state_of(*single_worker(), started("w2"), decision("w2", members=2), assigned("w1", 2))
    assert fleet_state.decisions[-1].generation is None


def test_a_dead_worker_owns_nothing_and_its_death_is_dated():
    fleet_state = fleet_state_of(*single_worker(), exited("w1", at=99))
    assert fleet_state.alive == []
    assert fleet_state.owners == {}
    assert fleet_state.deaths == [("w1", 99)]
    assert fleet_state.workers["w1"].exit_status == -9


def test_a_restarted_worker_begins_anew():
    fleet_state = fleet_state_of(*single_worker(), exited("w1"), started("w1"))
    assert [worker.adopted_generation for worker in fleet_state.alive] == [None]


def test_only_a_running_active_task_has_an_owner():
    fleet_state = fleet_state_of(
        started("w1"),
        status("w1", t0_0=("active", "restoring", 5), t0_1=("standby", "tailing", 0), t0_2=("active", "running", 0)),
    )
    assert fleet_state.owners == {"0_2": "w1"}


def test_a_rebalance_lasts_from_the_first_join_to_the_last_adoption():
    fleet_state = fleet_state_of(
        joining("w1", at=10),
        joining("w2", at=14),
        assigned("w2", 3, at=30),
        assigned("w1", 3, at=31),
        adopted("w1", 3, at=33),
        adopted("w2", 3, at=40),
    )
    (rebalance,) = fleet_state.rebalances.values()
    assert (rebalance.start_ms, rebalance.end_ms, rebalance.probing) == (10, 40, False)


def test_a_generation_that_a_probe_began_counts_as_probing_and_the_next_does_not():
    fleet_state = fleet_state_of(
        joining("w1", reason=PROBE), assigned("w1", 3), assigned("w2", 3), joining("w1"), assigned("w1", 4)
    )
    assert [rebalance.probing for rebalance in fleet_state.rebalances.values()] == [True, False]


def test_a_takeover_remembers_how_much_had_to_be_restored():
    running = {"event": "running", "worker": "w1", "time_ms": 5, "task": "0_0", "positions": {}, "restored": 12}
    assert fleet_state_of(running).takeovers == [Takeover(5, "w1", "0_0", 12)]


def test_a_worker_that_lost_its_tasks_has_to_adopt_again():
    assert not fleet_state_of(*single_worker(), {"event": "lost", "worker": "w1", "time_ms": 1}).settled


def test_every_event_is_counted_also_one_without_a_reaction():
    refused = {"event": "commit_refused", "worker": "w1", "time_ms": 1, "reason": "x"}
    assert fleet_state_of(refused, refused).counts["commit_refused"] == 2
