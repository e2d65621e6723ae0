"""Random situations: ours keeps the invariants, leaves the group even, and costs less than it did."""

from __future__ import annotations

from types import MappingProxyType

from kstreams_assign.assign import VERSIONS
from kstreams_assign.group import assignor_choice
from kstreams_assign.sim.policies.least_movement import POLICY
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.words import cost_s, is_even
from tests.samples import sample
from tests.sim.tables.random_situations import drawn

SEEDS = range(60)


def test_invariants_hold_and_all_situations_together_cost_less_than_with_the_version_before(monkeypatch):
    now = before = 0.0
    for seed in sample(SEEDS, 12):
        situation, group = drawn(seed)
        costs = measure(POLICY, situation, group)
        assert (costs.violations, is_even(costs)) == ((), True), situation
        if not group.standbys:
            continue  # the version before decides the same
        now += cost_s(costs, group)
        with monkeypatch.context() as patch:
            versions = {**VERSIONS, "least_movement": {4: VERSIONS["least_movement"][4]}}
            patch.setattr(assignor_choice, "VERSIONS", MappingProxyType(versions))
            before += cost_s(measure(POLICY, situation, group), group)
    assert now < 0.99 * before


def test_an_announced_situation_is_the_same_but_for_what_a_process_says():
    for seed in SEEDS:
        (plain, group), (announced, same) = drawn(seed), drawn(seed, announced=True)
        assert same == group
        assert [event[::2] for event in announced.events] == [event[::2] for event in plain.events]
        changed = [event.kind for event, now in zip(plain.events, announced.events, strict=True) if event != now]
        assert set(changed) <= {"leave"}
