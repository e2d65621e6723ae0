"""Where a worker can be killed: the calls of a recording, and which of them to choose. Pure."""

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
    """One call of a phase: the ``nth`` at this site, counted from 1; the process dies before or after it (``side``)."""

    phase: str
    site: str
    nth: int
    side: Side

    def __str__(self) -> str:
        return f"{self.phase}: {self.side} {self.site} #{self.nth}"


def occurrences(count: int) -> list[int]:
    """Return the first, second, a middle and a late occurrence. Another run may not reach the very last."""
    return sorted({1, min(2, count), (count + 1) // 2, max(1, count * 3 // 4)})


def all_points(seen: Recording, after_only: frozenset[str]) -> list[Point]:
    """Return points for each phase, site, class of occurrence and side. ``after_only``: sites that die only after."""
    return [
        Point(phase, site, nth, side)
        for (phase, site), count in seen.items()
        for nth in occurrences(count)
        for side in SIDES
        if side == "after" or site not in after_only
    ]


def busiest_phases(seen: Recording) -> Recording:
    """Keep each call site in the phase that makes most calls there."""
    busiest: dict[str, str] = {}
    for (phase, site), count in seen.items():
        if site not in busiest or count > seen[busiest[site], site]:
            busiest[site] = phase
    return {(phase, site): count for (phase, site), count in seen.items() if busiest[site] == phase}


def point_per_site(seen: Recording, after_only: frozenset[str]) -> list[Point]:
    """Return one point a site; sides alternate, and late occurrences alternate with first ones."""
    turns: Iterator[tuple[Side, int]] = cycle([("after", 0), ("before", -1), ("before", 0), ("after", -1)])
    return [
        Point(phase, site, occurrences(count)[index], "after" if site in after_only else side)
        for ((phase, site), count), (side, index) in zip(seen.items(), turns, strict=False)
    ]
