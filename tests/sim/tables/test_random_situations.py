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


def test_invariants_hold_and_all_situations_together_cost_less_than_with_earlier_versions(monkeypatch):
    now, before = 0.0, {2: 0.0, 4: 0.0}
    for seed in sample(SEEDS, 12):
        situation, group = drawn(seed)
        costs = measure(POLICY, situation, group)
        assert (costs.violations, is_even(costs)) == ((), True), situation
        now += cost_s(costs, group)
        if not group.standbys:
            before[4] += cost_s(costs, group)  # it decides the same
        for version in before if group.standbys else (2,):
            with monkeypatch.context() as patch:
                versions = {**VERSIONS, "least_movement": {version: VERSIONS["least_movement"][version]}}
                patch.setattr(assignor_choice, "VERSIONS", MappingProxyType(versions))
                before[version] += cost_s(measure(POLICY, situation, group), group)
    assert now < 0.98 * before[2]
    assert now < 0.995 * before[4]


def test_an_announced_situation_is_the_same_but_for_what_a_process_says():
    for seed in SEEDS:
        (plain, group), (announced, same) = drawn(seed), drawn(seed, announced=True)
        assert same == group
        assert [event[::2] for event in announced.events] == [event[::2] for event in plain.events]
        changed = [event.kind for event, now in zip(plain.events, announced.events, strict=True) if event != now]
        assert set(changed) <= {"leave"}
