"""What a worker counts for its metrics: once a batch, a commit, a rebalance or a progress report, never once a record.

Each meter is written by one thread and read by others: values are replaced, never changed in place.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Generic, TypeVar

from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Row

Key = TypeVar("Key", bound=Hashable)

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

TaskTopic = tuple[TaskId, str]


@dataclass(frozen=True, slots=True)
class DurationView:
    """How many durations fell into each bucket (the last one is beyond all bounds), and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0

    def cumulative(self) -> list[tuple[str, int]]:
        """Upper bound -> how many lasted at most so long, as a Prometheus histogram has it."""
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))

    @property
    def count(self) -> int:
        return sum(self.counts)


class Durations:
    """A stopwatch that is started and stopped, and the durations so far."""

    def __init__(self) -> None:
        self.view = DurationView()
        self._began_s: float | None = None

    def start(self) -> None:
        """Begin a duration; one that is under way goes on."""
        if self._began_s is None:
            self._began_s = time.monotonic()

    def stop(self) -> None:
        """End it and count it; nothing if none is under way."""
        if self._began_s is None:
            return
        passed_s, self._began_s = time.monotonic() - self._began_s, None
        counts = [*self.view.counts]
        counts[bisect_left(BOUNDS_S, passed_s)] += 1
        self.view = DurationView(tuple(counts), self.view.sum_s + passed_s)

    def drop(self) -> None:
        """End it without counting it."""
        self._began_s = None


class Totals(Generic[Key]):
    """Sums by key that only grow."""

    def __init__(self) -> None:
        self._sums: dict[Key, int] = {}

    def add(self, key: Key, count: int) -> None:
        self._sums[key] = self._sums.get(key, 0) + count

    def view(self) -> dict[Key, int]:
        """A copy, from any thread."""
        return dict(self._sums)


def count_topics(rows: Iterable[Row]) -> Counter[str]:
    """Topic -> records of rows that begin with their topic; in C, as a commit has many."""
    return Counter(map(itemgetter(0), rows))


@dataclass(frozen=True, slots=True)
class Meters:
    """All of them at one moment."""

    rebalances: DurationView = field(default_factory=DurationView)
    commits: DurationView = field(default_factory=DurationView)
    commit_failures_total: int = 0
    records_consumed: Mapping[TaskTopic, int] = field(default_factory=dict)
    records_produced: Mapping[TaskTopic, int] = field(default_factory=dict)
    restored: Mapping[TaskId, int] = field(default_factory=dict)
    updated: Mapping[TaskId, int] = field(default_factory=dict)
    state_bytes: Mapping[TaskId, int] = field(default_factory=dict)
