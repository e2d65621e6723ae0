"""Progress and summary of many seeds."""

from __future__ import annotations

import pytest

from kstreams_assign.sim.checkers.checker import Violation
from kstreams_assign.sim.tally import Outcome, Tally


def tally_of(*failing, played=4, asked=4):
    tally = Tally(asked)
    for seed in range(played):
        broken = (Violation(seed, "offsets never go back", "orders-0", 5),) if seed in failing else ()
        tally.add(Outcome(seed, 3, broken))
    return tally


def test_played_seeds_are_counted():
    assert tally_of().summary().startswith("4 seeds, 0 failed; 12 rebalances in 0.0 s (")
    assert tally_of(1, 3).summary().startswith("4 seeds, 2 failed (1, 3); ")


def test_only_some_of_many_failing_seeds_are_named():
    failed = tally_of(*range(20), played=20, asked=20)
    assert ", 20 failed (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...); " in failed.summary()
    assert len(failed.facts()["violations"]) == 20


def test_progress_and_summary_show_the_number_of_all_seeds():
    tally = tally_of(played=3, asked=3_000)
    assert tally.progress().startswith("3 of 3,000 seeds, 0 failed; ")
    assert tally.progress().endswith(" left")
    assert tally.summary().startswith("3 of 3000 seeds, ")
    assert (tally.facts()["seeds"], tally.facts()["asked"]) == (3, 3_000)


@pytest.mark.parametrize(("began_s_ago", "left"), [(0.09, "s left"), (3, "50 min left")])
def test_the_time_left_assumes_the_same_pace(began_s_ago, left):
    tally = tally_of(played=3, asked=3_003)
    tally._began_s -= began_s_ago
    assert tally.progress().endswith(left)
