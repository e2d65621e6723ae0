"""The timeline of a policy in a situation: a row a task, a bar for each process that runs it, red where none does.

Thin lines at the foot of a row are replicas, and the task's own restore. Ticks above are rebalances.
"""

from __future__ import annotations

from collections.abc import Iterator

from kstreams_assign.page.frame import Html, tag
from kstreams_assign.sim.tables.ledger import RESTORES, RUNS, Bar
from kstreams_assign.sim.tables.measure import Measured

WIDTH, ROW, TOP = 560, 11, 12
BAR = 7
"""Of a row's height; the line of a replica has the rest."""
THINNEST = 2.5
SHORTEST_MS = 20
"""A shorter pause is only the time of a message."""


def timeline(measured: Measured, tasks: int, until_ms: int) -> Html:
    """Return the picture; ``until_ms``: the right edge, the same for all policies of a situation."""
    height = TOP + tasks * ROW
    shown_ms = min(until_ms, int(measured.settled_s * 1_000))
    parts = [
        *(_bar(bar, until_ms) for bar in measured.bars if bar.from_ms < until_ms),
        *_pauses(measured, tasks, shown_ms, until_ms),
        *_ticks(measured, until_ms),
    ]
    if shown_ms < until_ms:
        x = _x(shown_ms, until_ms)
        parts.append(tag("line", x1=x, x2=x, y1=f"{TOP}", y2=f"{height}", class_="rest"))
    summary = (
        f"{measured.rebalances} rebalances, {measured.downtime_s:.0f} task-seconds of downtime, at rest after "
        f"{measured.settled_s:.0f} s"
    )
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{measured.policy}: {summary}",
        class_="timeline",
    )


def _x(ms: float, until_ms: int) -> str:
    return f"{ms / until_ms * WIDTH:.1f}"


def _pauses(measured: Measured, tasks: int, shown_ms: int, until_ms: int) -> Iterator[Html]:
    """Yield red bars where a task is not processed, wide enough to be seen."""
    for task in range(tasks):
        runs = sorted(
            (bar.from_ms, bar.to_ms) for bar in measured.bars if bar.role == RUNS and bar.task.partition == task
        )
        idle_ms = 0
        for from_ms, to_ms in [*runs, (shown_ms, shown_ms)]:
            if from_ms - idle_ms > SHORTEST_MS and idle_ms < shown_ms:
                yield _pause(task, idle_ms, min(from_ms, shown_ms), until_ms)
            idle_ms = max(idle_ms, to_ms)


def _pause(task: int, from_ms: int, to_ms: int, until_ms: int) -> Html:
    label = f"0_{task}: not processed, {from_ms / 1_000:.1f} to {to_ms / 1_000:.1f} s"
    width = max(THINNEST, (to_ms - from_ms) / until_ms * WIDTH)
    x, y = _x(from_ms, until_ms), f"{TOP + task * ROW}"
    return tag("rect", tag("title", label), x=x, y=y, width=f"{width:.1f}", height=f"{BAR}", class_="idle")


def _bar(bar: Bar, until_ms: int) -> Html:
    runs = bar.role == RUNS
    y = TOP + bar.task.partition * ROW + (0 if runs else BAR)
    to_ms = min(bar.to_ms, until_ms)
    about = f"{bar.task} on P{bar.slot}: {bar.role}, {bar.from_ms / 1_000:.1f} to {bar.to_ms / 1_000:.1f} s"
    return tag(
        "rect",
        tag("title", about),
        x=_x(bar.from_ms, until_ms),
        y=f"{y}",
        width=_x(to_ms - bar.from_ms, until_ms),
        height=f"{BAR if runs else ROW - BAR - 1}",
        class_=f"p{bar.slot}" + ("" if runs else " restores" if bar.role == RESTORES else " copy"),
    )


def _ticks(measured: Measured, until_ms: int) -> Iterator[Html]:
    for at_s in measured.decided_s:
        if at_s * 1_000 <= until_ms:
            x = float(_x(at_s * 1_000, until_ms))
            yield tag("path", tag("title", f"rebalance at {at_s:.1f} s"), d=f"M{x:.1f} 9l-3 -8h6z", class_="tick")
