"""What the benchmark computes from the outputs of each task: latency, gaps and the duration of an event.

Pure: no broker, no clock. Times are milliseconds since 1970, by the clock of the machine that sends and reads. An
output partition has the outputs of one task, and each output names the process that wrote it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isnan, nan
from statistics import fmean, median

from bench.migration import silence

BACK_AT = 2
"""The latency is back when it is at most so many times the steady 99th percentile."""


@dataclass(slots=True)
class Outputs:
    """Outputs of one task, in the order of their arrival.

    An output that was read before (at least once repeats some after a failure) has no latency: it ends a gap, but its
    input was answered already.
    """

    arrived_ms: array[float] = field(default_factory=lambda: array("d"))
    latency_ms: array[float] = field(default_factory=lambda: array("d"))
    process: bytearray = field(default_factory=bytearray)

    def add(self, arrived_ms: float, latency_ms: float | None, process: int) -> None:
        # The time comes last, as another thread may read as many outputs as there are times.
        self.latency_ms.append(nan if latency_ms is None else latency_ms)
        self.process.append(process)
        self.arrived_ms.append(arrived_ms)

    def first_from(self, time_ms: float) -> int:
        """Return the place of the first output that arrived at this time or later."""
        return bisect_left(self.arrived_ms, time_ms)

    def latencies(self, begin_ms: float, end_ms: float) -> Iterator[tuple[float, float]]:
        """Yield the arrival and latency of each input's first output that arrived in the interval, without its end."""
        for place in range(self.first_from(begin_ms), self.first_from(end_ms)):
            if not isnan(self.latency_ms[place]):
                yield self.arrived_ms[place], self.latency_ms[place]

    def owner_at(self, time_ms: float) -> int | None:
        """Return the process that wrote the last output before this time."""
        place = self.first_from(time_ms)
        return self.process[place - 1] if place else None


Tasks = Mapping[int, Outputs]
"""Outputs by partition."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time of one event, until the next one begins."""

    event: str
    begin_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Steady:
    """Latency and gaps while nothing happens."""

    p50_ms: float
    p99_ms: float
    gap_max_ms: float
    peak_ms: float
    average_ms: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """Latency, gaps and duration of one event. A gap is 0 if its task wrote less than two records."""

    moved_gap_by_task_ms: Mapping[int, float]
    staying_gap_by_task_ms: Mapping[int, float]
    peak_ms: float
    average_ms: float
    duration_s: float

    @property
    def moved_median_ms(self) -> float | None:
        return median(self.moved_gap_by_task_ms.values()) if self.moved_gap_by_task_ms else None


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least this share of all values do not exceed (nearest rank)."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


def steady(tasks: Tasks, window: Window) -> Steady:
    """Measure a window without an event. Every task must have output in it."""
    latencies = [latency for _, latency in _latencies(tasks, window.begin_ms, window.end_ms)]
    return Steady(
        percentile(latencies, 50),
        percentile(latencies, 99),
        max(gap(outputs, window) for outputs in tasks.values()),
        max(latencies),
        fmean(latencies),
    )


def scaling(tasks: Tasks, window: Window, steady_p99_ms: float) -> Scaling:
    """Measure an event: gaps and the peak in its whole window, the average from the event to the end of its effect."""
    moved = moved_tasks(tasks, window)
    end_ms = back_ms(tasks, window, BACK_AT * steady_p99_ms)
    of_window = [latency for _, latency in _latencies(tasks, window.begin_ms, window.end_ms)]
    # What arrives at the very end belongs to the event.
    of_event = [latency for at, latency in _latencies(tasks, window.begin_ms, window.end_ms) if at <= end_ms]
    return Scaling(
        {task: gap(outputs, window) for task, outputs in tasks.items() if task in moved},
        {task: gap(outputs, window) for task, outputs in tasks.items() if task not in moved},
        max(of_window),
        fmean(of_event or of_window),
        (end_ms - window.begin_ms) / 1000,
    )


def gap(outputs: Outputs, window: Window) -> float:
    """Return the longest time between two neighbouring outputs whose middle is in the window."""
    # One neighbour before the window, one behind it.
    first, last = outputs.first_from(window.begin_ms), outputs.first_from(window.end_ms)
    return silence(outputs.arrived_ms[max(0, first - 1) : last + 1], window.begin_ms, window.end_ms)


def moved_tasks(tasks: Tasks, window: Window) -> frozenset[int]:
    """Return the tasks whose last output in the window is by another process than their last one before it."""
    return frozenset(
        task for task, outputs in tasks.items() if outputs.owner_at(window.begin_ms) != outputs.owner_at(window.end_ms)
    )


def back_ms(tasks: Tasks, window: Window, limit_ms: float) -> float:
    """Return the time from which all tasks answer within the limit, and each moved task works at its new owner."""
    late = (at for at, latency in _latencies(tasks, window.begin_ms, window.end_ms) if latency > limit_ms)
    works = (_first_by_new_owner_ms(tasks[task], window) for task in moved_tasks(tasks, window))
    return max([window.begin_ms, *late, *works])


def is_back(tasks: Tasks, begin_ms: float, end_ms: float, limit_ms: float) -> bool:
    """Return whether every task has output in the interval, and all of it came within the limit."""
    per_task = [[latency for _, latency in outputs.latencies(begin_ms, end_ms)] for outputs in tasks.values()]
    return all(latencies and max(latencies) <= limit_ms for latencies in per_task)


def _first_by_new_owner_ms(outputs: Outputs, window: Window) -> float:
    """Return when the owner at the window's end wrote its first output in the window."""
    first, owner = outputs.first_from(window.begin_ms), outputs.owner_at(window.end_ms)
    return next(
        at for at, process in zip(outputs.arrived_ms[first:], outputs.process[first:], strict=False) if process == owner
    )


def _latencies(tasks: Tasks, begin_ms: float, end_ms: float) -> Iterator[tuple[float, float]]:
    for outputs in tasks.values():
        yield from outputs.latencies(begin_ms, end_ms)
