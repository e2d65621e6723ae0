"""How ``max_warmup_replicas`` and the probing interval trade speed for broker load: a grid of simulations.

The group: four processes become eight, 32 tasks of different size. Speed: the time until the group is at rest. Broker
load: the number of rebalances, and the highest rate of reads. Simulations share nothing, so they may be spread
(``sim.spread``).
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
"""Stands for early probing, in place of an interval."""
ASSIGNORS = ("high_availability", "least_movement")
SEEDS = (1,)
"""Only the network's milliseconds are random here; more seeds give the same results."""
GROUP = replace(GROUP_OF_EIGHT, partitions=32, more_records=4_000)


class Point(NamedTuple):
    """The settings of a simulation."""

    assignor: str
    warmups: int
    interval_s: int
    seed: int


class Result(NamedTuple):
    """Its results. ``read_per_s``: records that all processes read per second in the busiest ten seconds."""

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


def play_point(point: Point) -> Result:
    """Simulate a point; the result does not depend on where it runs."""
    policy = least_movement.POLICY if point.interval_s == EARLY else kip_441.POLICY
    interval_ms = 1_000 * (point.interval_s or max(INTERVALS_S))
    settings = {"max_warmup_replicas": point.warmups, "probing_rebalance_interval_ms": interval_ms}
    chosen = replace(policy, settings={**policy.settings, "assignor": point.assignor, **settings})
    costs = measure(chosen, DOUBLED, GROUP, seed=point.seed)
    return Result(point, costs.settled_s, costs.rebalances, costs.read_per_s)


def sweep(asked: Sequence[Point], spread: Spread = here) -> list[Result]:
    return spread(play_point, asked)


class Cell(NamedTuple):
    """The medians over the seeds."""

    assignor: str
    warmups: int
    interval_s: int
    rest_s: float
    rebalances: float
    read_per_s: float


def cells(results: Sequence[Result]) -> list[Cell]:
    keys = dict.fromkeys(result.point[:3] for result in results)
    return [Cell(*key, *_medians([result for result in results if result.point[:3] == key])) for key in keys]


def _medians(same: Sequence[Result]) -> tuple[float, float, float]:
    return (
        median(result.rest_s for result in same),
        median(result.rebalances for result in same),
        median(result.read_per_s for result in same),
    )


def name_of(interval_s: int) -> str:
    return "early" if interval_s == EARLY else f"{interval_s} s"


def table(all_cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a table for each assignor: a row for each limit of warm-ups, a column for each interval."""
    yield f"{DOUBLED.description}, {GROUP.partitions} tasks"
    yield "seconds until the group is at rest / rebalances; and the most records read per s"
    for assignor in dict.fromkeys(cell.assignor for cell in all_cells):
        mine = [cell for cell in all_cells if cell.assignor == assignor]
        intervals = list(dict.fromkeys(cell.interval_s for cell in mine))
        yield ""
        yield assignor
        yield f"{'':12}" + "".join(f"{name_of(interval_s):>11}" for interval_s in intervals) + f"{'max read/s':>12}"
        for warmups in dict.fromkeys(cell.warmups for cell in mine):
            row = [cell for cell in mine if cell.warmups == warmups]
            row_cells = "".join(f"{f'{cell.rest_s:.0f} / {cell.rebalances:.0f}':>11}" for cell in row)
            label = f"{warmups} warm-up{'s' * (warmups > 1)}"
            yield f"{label:12}{row_cells}{max(cell.read_per_s for cell in row):12,.0f}"
