"""Random situations: processes join, leave, die and restart at random times; tasks of any size and speed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import MappingProxyType

from kstreams_assign.assign import VERSIONS
from kstreams_assign.group import assignor_choice
from kstreams_assign.sim.policies.least_movement import POLICY
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.measure import Measured, measure
from kstreams_assign.sim.tables.situations import GROUP, Event, Situation
from tests.samples import sample

SEEDS = range(60)
AWAY_S = (10, 20, 40)
APART_S = (5, 20, 40, 90)
RETURNS = {"bounce": "leave", "restart": "restart", "replace": "wreck"}
"""The kinds of events after which the process starts again -> how it ends."""


def drawn(seed: int) -> tuple[Situation, Scenario]:
    """Return a situation of one to eight events, and its group."""
    random = Random(seed)
    group = replace(
        GROUP,
        partitions=random.choice((4, 8, 12, 17)),
        first_records=random.choice((20_000, 50_000, 100_000)),
        restored_per_s=random.choice((5_000, 10_000, 20_000)),
        standbys=random.choice((0, 1)),
    )
    starting = range(random.randint(2, 5))
    at_s, events = 0, []
    from_rest = random.random() < 0.75
    if not from_rest:
        for slot in starting:
            events.append(Event(at_s, "start", slot))
            at_s += random.choice(APART_S)
    up, fresh = set(starting), len(starting)
    for _ in range(random.randint(1, 3)):
        kind = random.choice(("start", "start", "leave", "kill", "wreck", *RETURNS)) if len(up) > 1 else "start"
        if kind == "start":
            events.append(Event(at_s, kind, fresh))
            up.add(fresh)
            fresh += 1
        else:
            slot = random.choice(sorted(up))
            events.append(Event(at_s, RETURNS.get(kind, kind), slot))
            if kind in RETURNS:
                events.append(Event(at_s + random.choice(AWAY_S), "start", slot))
            else:
                up.remove(slot)
        at_s += random.choice(APART_S)
    before = tuple(starting) if from_rest else ()
    return Situation(f"seed {seed}", "", "", before, tuple(sorted(events))), group


def cost_s(costs: Measured, group: Scenario) -> float:
    return costs.downtime_s + costs.restored / group.restored_per_s


def test_invariants_hold_and_all_situations_together_cost_less_than_with_the_version_before(monkeypatch):
    now = before = 0.0
    for seed in sample(SEEDS, 12):
        situation, group = drawn(seed)
        costs = measure(POLICY, situation, group)
        assert (costs.violations, costs.uneven < 2) == ((), True), situation
        now += cost_s(costs, group)
        with monkeypatch.context() as patch:
            versions = {**VERSIONS, "least_movement": {2: VERSIONS["least_movement"][2]}}
            patch.setattr(assignor_choice, "VERSIONS", MappingProxyType(versions))
            before += cost_s(measure(POLICY, situation, group), group)
    assert now < 0.98 * before
