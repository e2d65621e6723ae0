"""Random situations: ours keeps the invariants, leaves the group even, and costs less than the best of the others."""

from __future__ import annotations

from kstreams_assign.sim.policies import learners, least_movement
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.words import cost_s, is_even
from tests.samples import sample
from tests.sim.tables.random_situations import drawn

SEEDS = range(60)


def test_invariants_hold_and_all_situations_together_cost_a_twentieth_less_than_the_best_of_the_others():
    """Learners are the best of the others in these situations."""
    ours_s, learners_s = 0.0, 0.0
    for seed in sample(SEEDS, 12):
        situation, group = drawn(seed)
        costs = measure(least_movement.POLICY, situation, group)
        assert (costs.violations, is_even(costs)) == ((), True), situation
        ours_s += cost_s(costs, group)
        learners_s += cost_s(measure(learners.POLICY, situation, group), group)
    assert ours_s < 0.95 * learners_s, (ours_s, learners_s)


def test_an_announced_situation_is_the_same_but_for_what_a_process_says():
    for seed in SEEDS:
        (plain, group), (announced, same) = drawn(seed), drawn(seed, announced=True)
        assert same == group
        assert [event[::2] for event in announced.events] == [event[::2] for event in plain.events]
        changed = [event.kind for event, now in zip(plain.events, announced.events, strict=True) if event != now]
        assert set(changed) <= {"leave"}
