"""An observed group reaches the assignors like the leader's own members: the leader decides the predicted moves."""

from __future__ import annotations

from dataclasses import fields, replace
from uuid import UUID

import pytest

from kstreams_assign.group.dialects import KIP441
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.reasons import reasons
from tests.observe.seen_group import SeenGroup, scaled_out, settled


def settings_of_leader(group: SeenGroup) -> dict[str, object]:
    return {setting.name: getattr(group.config, setting.name) for setting in fields(group.config)} | {
        "assignor": group.assignor
    }


def predicted_moves(group: SeenGroup) -> dict[TaskId, tuple[UUID | None, UUID]]:
    about = describe(group.observed(**settings_of_leader(group)))
    return {move.task: (move.source, move.target) for move in about.next_moves}


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("assignor", ["high_availability", "least_movement"])
@pytest.mark.parametrize("members", [2, 3, 5])
@pytest.mark.parametrize("standbys", [0, 1])
def test_the_next_moves_are_those_that_the_leader_makes_once_copies_have_caught_up(ours, assignor, members, standbys):
    group = settled(members=members - 1, partitions=9, num_standby_replicas=standbys)
    group.assignor = assignor
    group.java_leads = not ours
    for member in group.members.values():
        member.ours = ours
    group.add(members).ours = ours
    for rounds in range(40):
        decision = group.rebalance()
        if decision.withheld:
            continue
        expected = predicted_moves(group)
        group.catch_up()
        next_decision = group.rebalance()
        assert expected == {
            **next_decision.changed,
            **{task: (None, group.owners()[task]) for task in next_decision.adopted},
        }
        if next_decision.next_probe_ms is None and not next_decision.withheld:
            assert rounds or not standbys
            return
    raise AssertionError("the group never settled")


def test_the_last_join_is_seen_as_its_leader_saw_it():
    group = scaled_out(members=3, num_standby_replicas=1)
    observed = group.observed(**settings_of_leader(group))
    cluster = observed.cluster_at_last_join()
    plan = observed.assignor(cluster, observed.config)
    assert plan.placements == group.decision.placements


def test_a_task_that_is_between_two_owners_belongs_to_its_next_owner():
    group = scaled_out()
    group.catch_up()
    decision = group.rebalance()
    assert decision.withheld
    observed = group.observed()
    assert {task: observed.owners[task] for task in decision.withheld} == dict(decision.withheld)
    assert not describe(observed).unowned


def test_a_java_leader_does_not_report_the_next_owners_of_withheld_tasks():
    group = scaled_out(ours=False)
    group.catch_up()
    decision = group.rebalance()
    about = describe(group.observed())
    assert set(about.unowned) == set(decision.withheld)


def test_a_task_that_ran_here_and_was_revoked_counts_as_read_to_the_end():
    group = scaled_out()
    group.catch_up()
    moved = set(group.rebalance().withheld)
    first = group.observed().cluster_at_next_join().clients[0]
    assert {first.lags[task] for task in moved} == {0}
    assert {first.lags[task] for task in first.prev_active} == {RUNNING_OFFSET_SUM}


def test_lags_of_the_kips_dialect_are_taken_as_reported():
    group = scaled_out()
    group.dialect = KIP441
    group.rebalance()
    group.members[UUID(int=2)].positions = dict.fromkeys(group.members[UUID(int=2)].positions, 40_000)
    group.rebalance()
    observed = group.observed()
    second = observed.cluster_at_next_join().clients[1]
    assert {second.lags[task] for task in second.prev_standby} == {10_000}
    caught_up = observed.cluster_at_next_join(observed.copies).clients[1]
    assert {caught_up.lags[task] for task in second.prev_standby} == {0}


def test_without_end_offsets_prior_owners_stay_and_nothing_is_predicted_moves():
    group = scaled_out()
    seen = group.observed()
    blind = replace(seen, decoded=replace(seen.decoded, snapshot=replace(group.snapshot(), end_offsets={})))
    assert not blind.ends_known
    assert blind.choice.name == "fallback_prior"
    assert describe(blind).next_moves == ()


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_process_that_is_about_to_leave_is_drained_as_its_leader_would(standbys):
    group = settled(members=3, partitions=9, num_standby_replicas=standbys)
    group.rebalance()
    group.leaving = UUID(int=3)
    about = describe(group.observed(**settings_of_leader(group)))
    its = {task for task, owner in group.owners().items() if owner == group.leaving}
    moved = {move.task for move in about.next_moves}
    assert moved == (its if standbys else set()), "a task moves where it is warm"
    assert f"{group.leaving} is about to leave" in "\n".join(reasons(about))
