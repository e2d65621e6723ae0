"""How often ``least_movement`` is best: random situations, each with all policies of ``simulate policies``.

    python -m bench.policies                              # 1,000 situations, a quarter of an hour on one core
    python -m bench.policies --count 100 --seed 5000 --jobs 2

Processes join, leave, die and restart at random times; tasks have any size, and a standby or none. The cost is that of
``simulate policies``: the task-seconds of downtime plus the process-seconds of restoring. Policies that leave the group
uneven, or under which it does not come to rest, are no measure for ours. One JSON line for each situation in which ours
costs more than 1.2 times the cheapest other policy, and one for all: where processes that come back do not always say
so, and where they do (``announced``; only the situations in which that makes a difference are played twice).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import NamedTuple

from kstreams_assign.errors import SimulationStuck
from kstreams_assign.sim.jobs import across
from kstreams_assign.sim.policies import FIRST
from kstreams_assign.sim.policies.least_movement import POLICY as OURS
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.words import cost_s, is_even
from tests.sim.tables.random_situations import drawn

SHOWN_FROM = 1.2
EPSILON_S = 1.0
"""Costs are compared with this much on top: a second is the time of a look."""


class Beside(NamedTuple):
    """The costs in one situation: ours, and of the cheapest other policy that leaves the group even."""

    seed: int
    ours_s: float
    best_s: float
    best: str
    violations: int

    @property
    def ratio(self) -> float:
        return (self.ours_s + EPSILON_S) / (self.best_s + EPSILON_S)


def main(words: Sequence[str]) -> None:
    """Print JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(words)
    seeds = range(options.seed, options.seed + options.count)
    found: dict[int, Beside] = {}
    for announced in (False, True):
        differing = [seed for seed in seeds if not announced or drawn(seed, announced=True) != drawn(seed)]
        with closing(across(options.jobs, partial(compare, announced=announced), differing)) as played:
            for number, beside in enumerate(played, start=1):
                found[beside.seed] = beside
                if number % 50 == 0:
                    print(f"{number} of {len(differing)} situations", file=sys.stderr)
        for beside in found.values():
            if beside.ratio > SHOWN_FROM:
                shown = {**beside._asdict(), "ratio": round(beside.ratio, 2), "announced": announced}
                print(json.dumps(shown), flush=True)
        print(json.dumps({"announced": announced, **summary([*found.values()])}), flush=True)


def compare(seed: int, *, announced: bool) -> Beside:
    """Play one situation with all policies."""
    situation, group = drawn(seed, announced=announced)
    ours, measured = measure(OURS, situation, group), []
    for policy in FIRST:
        if policy is not OURS:
            with suppress(SimulationStuck):  # a policy under which the group never rests is no measure, either
                measured.append(measure(policy, situation, group))
    best = min(filter(is_even, measured), key=lambda costs: cost_s(costs, group), default=ours)
    ours_s, best_s = (round(cost_s(costs, group), 1) for costs in (ours, best))
    return Beside(seed, ours_s, best_s, best.policy, len(ours.violations))


def summary(found: Sequence[Beside]) -> dict[str, object]:
    """Return in how many situations ours is the cheapest, or costs how much more."""
    ratios = [beside.ratio for beside in found]
    return {
        "situations": len(found),
        "violations": sum(beside.violations for beside in found),
        "cheapest": sum(ratio <= 1 for ratio in ratios),
        "at_most_1.1": sum(ratio <= 1.1 for ratio in ratios),
        "above_1.2": sum(ratio > SHOWN_FROM for ratio in ratios),
        "above_1.5": sum(ratio > 1.5 for ratio in ratios),
        "ours_s": round(sum(beside.ours_s for beside in found)),
        "best_of_the_others_s": round(sum(beside.best_s for beside in found)),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
