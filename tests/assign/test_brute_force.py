"""Least movement over all clusters of the smallest sizes; ``brute_force`` covers larger ones."""

from __future__ import annotations

import pytest

from kstreams_assign.assign import Plan, least_movement
from tests.assign import small_clusters as small
from tests.assign.small_clusters import ACCEPTABLE, TINY, Small, faults, small_clusters
from tests.samples import sample

EVERY = [
    # clients, kinds, copies_max, letters, acceptable, count
    (2, (0, 0), 2, "-PFRO", ACCEPTABLE, 982),
    (2, (0, 1), 2, "-PFRO", ACCEPTABLE, 2336),
    (3, (0,), 3, "-PFRO", ACCEPTABLE, 300),
    (3, (0, 0, 0), 1, "-FR", ACCEPTABLE, 1400),
    (4, (0, 0), 1, "-FR", ACCEPTABLE, 536),
    (2, (0, 0), 2, "-NFRO", ACCEPTABLE, 982),
    (2, (0, 0), 2, "-PFRO", TINY, 982),
    (2, (0, 1), 2, "-NFR", TINY, 1328),
    (3, (0, 0), 2, "-PFR", TINY, 3148),
    (3, (0, 0, 0), 1, "-FR", TINY, 1400),
    (4, (0, 0), 1, "-FR", TINY, 536),
]


@pytest.mark.parametrize(("clients", "kinds", "copies_max", "letters", "acceptable", "count"), sample(EVERY, 2))
def test_every_small_cluster_reaches_balance_with_the_fewest_changes_and_the_least_to_restore(
    clients, kinds, copies_max, letters, acceptable, count
):
    seen = 0
    for each in small_clusters(clients, kinds, copies_max, letters, acceptable=acceptable):
        assert faults(each) == [], each
        seen += 1
    assert seen == count


def test_guarantees_hold_for_any_process_names():
    seen = 0
    for each in small_clusters(3, (0, 0), 1, "-FR", reduced=False):
        assert faults(each) == [], each
        seen += 1
    assert seen == 1616


def test_the_kips_table_for_a_stopped_instance_is_reached_at_once():
    """Part 1 of "Scaling In": T2 moves to its standby, so no process restores a task that lost its owner."""
    scaled_in = Small(("F-", "RF", "-R", "F-"), (0, 0, 0, 0), (1, 1), 1)
    plan = least_movement(scaled_in.cluster(), scaled_in.config)
    assert [sorted(task.partition for task in placed.active) for placed in plan.placements.values()] == [[0, 3], [1, 2]]
    assert not plan.probing


def test_the_proof_detects_an_assignor_that_moves_one_task_too_many(monkeypatch):
    """Of two clients at rest with a task each, one is made to give its task away."""

    def wasteful(cluster, config):
        plan = least_movement(cluster, config)
        first, second = plan.placements
        return Plan({first: plan.placements[second], second: plan.placements[first]}, plan.probing)

    at_rest = Small(("R-", "-R"), (0, 0), (1, 1), 0)
    assert faults(at_rest) == []
    monkeypatch.setattr(small, "least_movement", wasteful)
    assert any("0 would do" in text for text in faults(at_rest))
