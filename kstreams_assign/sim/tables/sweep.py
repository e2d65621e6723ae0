"""How ``max_warmup_replicas`` and the probing interval trade convergence against broker load: a grid of plays.

The group: four processes become eight, 32 tasks of different size. Convergence: how long until it is at rest. Broker load: how many
rebalances, and how fast changelogs are read at the worst. Plays share nothing, so they may be spread (``sim.spread``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from kstreams_assign.sim.policies import kip_441, least_movement
from kstreams_assign.sim.spread import Spread, here
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.probing import DOUBLED, GROUP_OF_EIGHT

WARMUPS = (1, 2, 4, 8, 16, 32)
INTERVALS_S = (60, 120, 300, 600)
EARLY = 0
"""In place of an interval: early probing."""
ASSIGNORS = ("high_availability", "least_movement")
SEEDS = (1,)
"""Chance is the network's milliseconds here; more seeds say the same."""
GROUP = replace(GROUP_OF_EIGHT, partitions=32, more_records=4_000)


class Point(NamedTuple):
    """One play."""

    assignor: str
    warmups: int
    interval_s: int
    seed: int


class Found(NamedTuple):
    """What came of it. ``read_per_s``: records of changelogs a second in the busiest ten, of all processes together."""

    point: Point
    rest_s: float
    rebalances: int
    read_per_s: int


def points(
    warmups: Sequence[int] = WARMUPS, intervals_s: Sequence[int] = (EARLY, *INTERVALS_S), seeds: Sequence[int] = SEEDS
) -> list[Point]:
    return [
        Point(assignor, count, interval_s, seed)
        for assignor in ASSIGNORS
        for count in warmups
        for interval_s in intervals_s
        for seed in seeds
    ]


def played(point: Point) -> Found:
    """The same point goes the same way wherever it is played."""
    policy = least_movement.POLICY if point.interval_s == EARLY else kip_441.POLICY
    interval_ms = 1_000 * (point.interval_s or max(INTERVALS_S))
    settings = {"max_warmup_replicas": point.warmups, "probing_rebalance_interval_ms": interval_ms}
    chosen = replace(policy, settings={**policy.settings, "assignor": point.assignor, **settings})
    one = measure(chosen, DOUBLED, GROUP, seed=point.seed)
    return Found(point, one.settled_s, one.rebalances, one.read_per_s)


def sweep(asked: Sequence[Point], spread: Spread = here) -> list[Found]:
    return spread(played, asked)


class Cell(NamedTuple):
    """The median over the seeds."""

    assignor: str
    warmups: int
    interval_s: int
    rest_s: float
    rebalances: float
    read_per_s: float


def cells(found: Sequence[Found]) -> list[Cell]:
    keys = dict.fromkeys(one.point[:3] for one in found)
    return [Cell(*key, *_medians([one for one in found if one.point[:3] == key])) for key in keys]


def _medians(same: Sequence[Found]) -> tuple[float, float, float]:
    return (
        median(one.rest_s for one in same),
        median(one.rebalances for one in same),
        median(one.read_per_s for one in same),
    )


def name_of(interval_s: int) -> str:
    return "early" if interval_s == EARLY else f"{interval_s} s"


def table(all_cells: Sequence[Cell]) -> Iterator[str]:
    """An assignor after the other: a row a number of warm-ups, a column an interval, and how fast is read at the worst."""
    yield f"{DOUBLED.told}, {GROUP.partitions} tasks; seconds until the group is at rest / rebalances"
    for assignor in dict.fromkeys(one.assignor for one in all_cells):
        mine = [one for one in all_cells if one.assignor == assignor]
        intervals = list(dict.fromkeys(one.interval_s for one in mine))
        yield ""
        yield f"{assignor:20}" + "".join(f"{name_of(one):>12}" for one in intervals) + "   read/s at most"
        for warmups in dict.fromkeys(one.warmups for one in mine):
            row = [one for one in mine if one.warmups == warmups]
            told = "".join(f"{f'{one.rest_s:.0f} / {one.rebalances:.0f}':>12}" for one in row)
            yield f"{f'{warmups} warm-ups':20}{told}{max(one.read_per_s for one in row):17,.0f}"
