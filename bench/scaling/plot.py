"""Latency over time as a picture: for each system a panel, with a line at each event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from pathlib import Path

from bench.scaling.measures import Tasks
from bench.scaling.scenario import Run
from kstreams_assign.page.frame import Html, tag

SUFFIXES = (".svg", ".html")
LEFT, WIDTH, TOP, HEIGHT, BELOW = 60, 900, 40, 160, 30
"""Of a panel, in pixels."""
LOWEST_MS, HIGHEST_MS = 10.0, 100_000.0
BUCKET_MS = 200.0
"""The line shows the highest latency in so much time."""
BEFORE_MS = 5_000.0
"""Time before the first event that is shown."""


def write(runs: Sequence[tuple[str, Run]], path: Path) -> None:
    """Write one panel for each title and run."""
    svg = draw(runs)
    page = f'<!doctype html><meta charset="utf-8"><title>Live scaling</title>{svg}' if path.suffix == ".html" else svg
    path.write_text(f"{page}\n", encoding="utf-8")


def draw(runs: Sequence[tuple[str, Run]]) -> Html:
    """Return the panels below each other."""
    panel = TOP + HEIGHT + BELOW
    return tag(
        "svg",
        *(
            tag("g", *_panel(title, run), transform=f"translate({LEFT} {number * panel + TOP})")
            for number, (title, run) in enumerate(runs)
            if run.windows
        ),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {LEFT + WIDTH + 20} {panel * len(runs)}",
        font_family="sans-serif",
        font_size="12",
        role="img",
        aria_label="Highest latency of each system over time, in milliseconds on a logarithmic scale",
    )


def peaks(tasks: Tasks, begin_ms: float, end_ms: float) -> list[tuple[float, float]]:
    """Return the highest latency of all tasks by the beginning of its bucket, where there is output."""
    by_bucket: dict[int, float] = {}
    for outputs in tasks.values():
        for at, latency in outputs.latencies(begin_ms, end_ms):
            bucket = int((at - begin_ms) / BUCKET_MS)
            by_bucket[bucket] = max(latency, by_bucket.get(bucket, 0))
    return [(begin_ms + bucket * BUCKET_MS, latency) for bucket, latency in sorted(by_bucket.items())]


def _panel(title: str, run: Run) -> Iterator[Html]:
    begin_ms, end_ms = run.windows[0].begin_ms - BEFORE_MS, run.windows[-1].end_ms

    def x(time_ms: float) -> float:
        return (time_ms - begin_ms) / (end_ms - begin_ms) * WIDTH

    yield tag("text", title, x="0", y="-22", font_weight="bold")
    yield from _scale()
    for window in run.windows:
        at = f"{x(window.begin_ms):.1f}"
        yield tag("line", x1=at, x2=at, y1="-4", y2=f"{HEIGHT}", stroke="#c33", stroke_dasharray="4 3")
        yield tag("text", window.event, x=at, y="-7", fill="#c33")
    points = " ".join(f"{x(at):.1f},{_y(latency):.1f}" for at, latency in peaks(run.tasks, begin_ms, end_ms))
    yield tag("polyline", points=points, fill="none", stroke="#246", stroke_width="1")
    yield tag("text", "0 s", x="0", y=f"{HEIGHT + 15}")
    yield tag("text", f"{(end_ms - begin_ms) / 1000:.0f} s", x=f"{WIDTH}", y=f"{HEIGHT + 15}", text_anchor="end")


def _scale() -> Iterator[Html]:
    latency_ms = LOWEST_MS
    while latency_ms <= HIGHEST_MS:
        at = f"{_y(latency_ms):.1f}"
        yield tag("line", x1="0", x2=f"{WIDTH}", y1=at, y2=at, stroke="#ddd")
        label = f"{latency_ms:.0f} ms" if latency_ms < 1000 else f"{latency_ms / 1000:.0f} s"
        yield tag("text", label, x="-6", y=at, text_anchor="end", dominant_baseline="middle")
        latency_ms *= 10


def _y(latency_ms: float) -> float:
    share = log10(min(HIGHEST_MS, max(LOWEST_MS, latency_ms)) / LOWEST_MS) / log10(HIGHEST_MS / LOWEST_MS)
    return HEIGHT * (1 - share)
