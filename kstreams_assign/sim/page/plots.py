"""Bars of the policies' costs: downtime and restoring, a group of bars for each situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kstreams_assign.page.frame import Html, tag
from kstreams_assign.sim.tables.compare import Column
from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.situations import GROUP
from kstreams_assign.sim.tables.words import cost_s

NAMES, WIDTH, LINE = 150, 300, 18


def plot(column: Column, titles: Mapping[str, str]) -> Html:
    """Return the bars of a situation, one a policy: downtime in red, restoring, and the number of rebalances."""
    most = max(map(cost_s, column.measured)) or 1
    lines = [line for at, costs in enumerate(column.measured) for line in _line(costs, titles[costs.policy], at, most)]
    height = LINE * len(column.measured)
    return tag(
        "svg",
        *lines,
        viewBox=f"0 0 {NAMES + WIDTH + 110} {height}",
        role="img",
        aria_label=f"Costs: {column.situation.title}, {column.standbys} standbys",
        class_="plot-bars",
    )


def _line(costs: Measured, title: str, at: int, most: float) -> Iterator[Html]:
    y = at * LINE
    down = costs.downtime_s / most * WIDTH
    restoring = costs.restored / GROUP.restored_per_s / most * WIDTH
    yield tag("text", title, x=f"{NAMES - 6}", y=f"{y + 13}", text_anchor="end")
    for x, width, kind, label in (
        (0.0, down, "down", f"{costs.downtime_s:.0f} task-seconds of downtime"),
        (down, restoring, "reading", f"{costs.restored:,} records restored"),
    ):
        yield tag(
            "rect",
            tag("title", label),
            x=f"{NAMES + x:.1f}",
            y=f"{y + 3}",
            width=f"{width:.1f}",
            height=f"{LINE - 6}",
            class_=kind,
        )
    label = f"{cost_s(costs):.0f} s · {costs.rebalances} rebal."
    yield tag("text", label, x=f"{NAMES + down + restoring + 6:.1f}", y=f"{y + 13}", class_="quiet")
