"""What a worker counts for its metrics: once a batch, a commit, a rebalance or a progress report, never once a record.

Each meter is written by one thread and read by others: values are replaced, never changed in place.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable
from operator import itemgetter
from typing import Generic, TypeVar

from kstreams_assign.status.views import BOUNDS_S, DurationView
from kstreams_assign.tasks.buffer import Row

Key = TypeVar("Key", bound=Hashable)


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
