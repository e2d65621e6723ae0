"""Positions of running tasks in their input partitions, and since when they have not moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kstreams_assign.model import TaskId, TopicPartition


class InputProgress(NamedTuple):
    """Position of a running task in one partition; ``end`` is its high watermark. Both are next offsets."""

    task: TaskId
    position: int
    end: int
    moved_at_ms: int

    @property
    def lag(self) -> int:
        """Return the offsets left to process; a transaction's marker at the end counts, as no reader sees it."""
        return max(0, self.end - self.position)


def measured(
    before: Mapping[TopicPartition, InputProgress],
    done_to: Iterable[tuple[TaskId, TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, InputProgress]:
    """Return the measurement after ``before``, without partitions whose end is not known yet."""
    return {
        partition: InputProgress(
            task, position, ends[partition], _moved_at(before.get(partition), task, position, now_ms)
        )
        for task, partition, position in done_to
        if partition in ends
    }


def _moved_at(before: InputProgress | None, task: TaskId, position: int, now_ms: int) -> int:
    if before is None or not before.lag or (before.task, before.position) != (task, position):
        return now_ms
    return before.moved_at_ms


MEASURE_EVERY_MS = 1_000


class InputMeter:
    """Measures now and then, on the loop's thread. ``progress`` may be read from any: it is replaced, never changed."""

    def __init__(self) -> None:
        self.progress: Mapping[TopicPartition, InputProgress] = {}
        self._measured_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether the last measurement is a second old."""
        return now_ms - self._measured_ms >= MEASURE_EVERY_MS

    def measure(
        self, done_to: Iterable[tuple[TaskId, TopicPartition, int]], ends: Mapping[TopicPartition, int], now_ms: int
    ) -> None:
        """Measure, whether it is due or not."""
        self._measured_ms = now_ms
        self.progress = measured(self.progress, done_to, ends, now_ms)
