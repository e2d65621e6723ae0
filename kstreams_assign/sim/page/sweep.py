"""The sweep as an SVG: time until rest, and broker load, by warm-ups and interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import log2, log10
from typing import NamedTuple

from kstreams_assign.page.frame import Html, tag
from kstreams_assign.page.palette import INSTANCES
from kstreams_assign.sim.tables.sweep import Cell, name_of

WIDTH, HEIGHT = 330, 230
LEFT, TOP, FOOT = 56, 34, 44
GAP = 30
FONT = "12px system-ui,-apple-system,Segoe UI,Roboto,Liberation Sans,sans-serif"


class Panel(NamedTuple):
    """A plot: its title, and the value of a cell that it shows."""

    title: str
    value: Callable[[Cell], float]


PANELS = (
    Panel("seconds until the group is at rest", lambda cell: cell.rest_s),
    Panel("rebalances", lambda cell: cell.rebalances),
    Panel("most records read per second", lambda cell: cell.read_per_s),
)


def picture(cells: Sequence[Cell], assignor: str) -> str:
    """Return an SVG document. Both axes are logarithmic."""
    mine = [cell for cell in cells if cell.assignor == assignor]
    intervals = list(dict.fromkeys(cell.interval_s for cell in mine))
    parts = [part for at, panel in enumerate(PANELS) for part in _panel(panel, mine, intervals, at * (WIDTH + GAP))]
    width = len(PANELS) * (WIDTH + GAP)
    whole = tag(
        "svg",
        tag("rect", width="100%", height="100%", fill="#ffffff"),
        *parts,
        *_legend(intervals),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {HEIGHT + 26}",
        style=f"font:{FONT}",
        fill="#1b2026",
    )
    return f"{whole}\n"


def _panel(panel: Panel, mine: Sequence[Cell], intervals: Sequence[int], left: int) -> Iterator[Html]:
    values = [max(panel.value(cell), 1) for cell in mine]
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08
    counts = sorted({cell.warmups for cell in mine})

    def x(warmups: int) -> float:
        return left + LEFT + log2(warmups / counts[0]) / max(1, log2(counts[-1] / counts[0])) * (WIDTH - LEFT - 12)

    def y(value: float) -> float:
        return HEIGHT - FOOT - (log10(max(value, 1)) - low) / (high - low) * (HEIGHT - FOOT - TOP)

    yield tag("text", panel.title, x=f"{left + LEFT}", y="18", font_weight="600")
    for count in counts:
        yield tag("text", str(count), x=f"{x(count):.1f}", y=f"{HEIGHT - FOOT + 18}", text_anchor="middle")
    yield tag(
        "text", "max_warmup_replicas", x=f"{left + WIDTH - 12}", y=f"{HEIGHT - 8}", text_anchor="end", fill="#5b6570"
    )
    for mark in _marks(min(values), max(values)):
        at = f"{y(mark):.1f}"
        yield tag("line", x1=f"{left + LEFT}", x2=f"{left + WIDTH - 12}", y1=at, y2=at, stroke="#e2e5e9")
        yield tag("text", f"{mark:,}", x=f"{left + LEFT - 6}", y=f"{y(mark) + 4:.1f}", text_anchor="end")
    for number, interval_s in enumerate(intervals):
        line = [(x(cell.warmups), y(panel.value(cell))) for cell in mine if cell.interval_s == interval_s]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in line)
        yield tag("polyline", points=points, fill="none", stroke=INSTANCES[number], stroke_width="2")
        yield from (tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r="3", fill=INSTANCES[number]) for a, b in line)


def _marks(low: float, high: float) -> list[int]:
    """1, 2 and 5 times a power of ten."""
    return [
        step * 10**power for power in range(7) for step in (1, 2, 5) if low * 0.85 <= step * 10**power <= high * 1.2
    ]


def _legend(intervals: Sequence[int]) -> Iterator[Html]:
    yield tag("text", "probing:", x=f"{LEFT}", y=f"{HEIGHT + 16}")
    for number, interval_s in enumerate(intervals):
        left = LEFT + 70 + number * 90
        yield tag("circle", cx=f"{left}", cy=f"{HEIGHT + 12}", r="4", fill=INSTANCES[number])
        yield tag("text", name_of(interval_s), x=f"{left + 9}", y=f"{HEIGHT + 16}")
