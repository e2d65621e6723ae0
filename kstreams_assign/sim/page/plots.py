"""What policies cost as bars: downtime and restoring beside each other, a group of bars a situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kstreams_assign.page.frame import Html, tag
from kstreams_assign.sim.tables.compare import Column
from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.situations import GROUP
from kstreams_assign.sim.tables.words import cost_s

NAMES, WIDTH, LINE = 150, 300, 18


def plot(column: Column, titles: Mapping[str, str]) -> Html:
    """One situation: a bar a policy, the downtime red, then the seconds of restoring, then the number of rebalances."""
    most = max(map(cost_s, column.measured)) or 1
    lines = [line for at, one in enumerate(column.measured) for line in _line(one, titles[one.policy], at, most)]
    height = LINE * len(column.measured)
    return tag(
        "svg",
        *lines,
        viewBox=f"0 0 {NAMES + WIDTH + 110} {height}",
        role="img",
        aria_label=f"Costs: {column.situation.title}, {column.standbys} standbys",
        class_="plot-bars",
    )


def _line(one: Measured, title: str, at: int, most: float) -> Iterator[Html]:
    y = at * LINE
    down = one.downtime_s / most * WIDTH
    restoring = one.restored / GROUP.restored_per_s / most * WIDTH
    yield tag("text", title, x=f"{NAMES - 6}", y=f"{y + 13}", text_anchor="end")
    for x, width, kind, told in (
        (0.0, down, "down", f"{one.downtime_s:.0f} task-seconds of downtime"),
        (down, restoring, "reading", f"{one.restored:,} records restored"),
    ):
        yield tag(
            "rect",
            tag("title", told),
            x=f"{NAMES + x:.1f}",
            y=f"{y + 3}",
            width=f"{width:.1f}",
            height=f"{LINE - 6}",
            class_=kind,
        )
    told = f"{cost_s(one):.0f} s · {one.rebalances} rebal."
    yield tag("text", told, x=f"{NAMES + down + restoring + 6:.1f}", y=f"{y + 13}", class_="quiet")
