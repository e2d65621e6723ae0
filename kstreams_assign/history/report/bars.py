"""From copies of tasks, one a generation, to bars over many generations, and the lane in which each is drawn. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kstreams_assign.history.report.view import Bar, Role


class Copy(NamedTuple):
    """A replica of a task in one generation; all but ``lag`` (offsets, None if unknown) index the group's lists."""

    task: int
    process: int
    generation: int
    role: Role
    lag: int | None = None


def merged(copies: Iterable[Copy]) -> list[Bar]:
    """One bar for each run of neighbouring generations in which a process holds a task in the same role.

    A generation in which the copy is missing ends the bar: what no record shows is not drawn.
    """
    bars: list[Bar] = []
    for (task, process), run in groupby(sorted(copies), key=lambda copy: (copy.task, copy.process)):
        first = last = -2
        role: Role | None = None
        lags: list[tuple[int, int]] = []
        for copy in run:
            if copy.role is not role or copy.generation > last + 1:
                if role is not None:
                    bars.append(Bar(task, 0, process, role, first, last, tuple(lags)))
                first, role, lags = copy.generation, copy.role, []
            last = copy.generation
            if copy.lag is not None:
                lags.append((copy.generation, copy.lag))
        if role is not None:
            bars.append(Bar(task, 0, process, role, first, last, tuple(lags)))
    return bars


def in_lanes(bars: Iterable[Bar]) -> list[Bar]:
    """The bars in lanes without overlap: active replicas in lane 0, the others below, in as few lanes as possible."""
    placed: list[Bar] = []
    for _, row in groupby(sorted(bars, key=attrgetter("task", "first", "role", "process")), key=attrgetter("task")):
        taken = [-1]  # lane -> the last generation drawn in it
        for bar in row:
            lane = _free_lane(taken, bar)
            taken[lane] = bar.last
            placed.append(replace(bar, lane=lane))
    return placed


def _free_lane(taken: list[int], bar: Bar) -> int:
    """Two active copies of one task at a time should never be; if they are, both are seen."""
    lowest = 0 if bar.role is Role.ACTIVE else 1
    for lane in range(lowest, len(taken)):
        if taken[lane] < bar.first:
            return lane
    taken.append(-1)
    return len(taken) - 1


def lanes_of(bars: Sequence[Bar], tasks: int) -> list[int]:
    """How many lanes each task's row has, at least one."""
    lanes = [1] * tasks
    for bar in bars:
        lanes[bar.task] = max(lanes[bar.task], bar.lane + 1)
    return lanes
