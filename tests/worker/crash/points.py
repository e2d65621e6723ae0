"""Where a worker can be killed: the calls that a recording saw, and which of them to kill it at. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

Side = Literal["before", "after"]
SIDES: tuple[Side, ...] = ("before", "after")

Recording = Mapping[tuple[str, str], int]
"""(phase, call site) -> how many calls, in the order in which they were first made."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call of a phase: the ``nth`` at this site, counted from 1, and whether the process dies before or after it."""

    phase: str
    site: str
    nth: int
    side: Side

    def __str__(self) -> str:
        return f"{self.phase}: {self.side} {self.site} #{self.nth}"


def occurrences(count: int) -> list[int]:
    """First, second, one in the middle and a late one of so many. The very last may not come in another run."""
    return sorted({1, min(2, count), (count + 1) // 2, max(1, count * 3 // 4)})


def all_points(seen: Recording, after_only: frozenset[str]) -> list[Point]:
    """Each phase, call site, class of occurrence and side. ``after_only``: sites whose calls count once they brought something."""
    return [
        Point(phase, site, nth, side)
        for (phase, site), count in seen.items()
        for nth in occurrences(count)
        for side in SIDES
        if side == "after" or site not in after_only
    ]


def busiest_phases(seen: Recording) -> Recording:
    """Each call site in the phase that makes most calls there."""
    busiest: dict[str, str] = {}
    for (phase, site), count in seen.items():
        if site not in busiest or count > seen[busiest[site], site]:
            busiest[site] = phase
    return {(phase, site): count for (phase, site), count in seen.items() if busiest[site] == phase}


def point_per_site(seen: Recording, after_only: frozenset[str]) -> list[Point]:
    """One point each; sides take turns, and late occurrences take turns with first ones."""
    turns: Iterator[tuple[Side, int]] = cycle([("after", 0), ("before", -1), ("before", 0), ("after", -1)])
    return [
        Point(phase, site, occurrences(count)[index], "after" if site in after_only else side)
        for ((phase, site), count), (side, index) in zip(seen.items(), turns, strict=False)
    ]
