"""How far running tasks are with their input partitions, and since when they have not moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kstreams_assign.model import TaskId, TopicPartition


class InputProgress(NamedTuple):
    """One partition of a running task: worked on up to ``position``; ``end`` is its high watermark. Both are next offsets."""

    task: TaskId
    position: int
    end: int
    moved_at_ms: int

    @property
    def lag(self) -> int:
        """Offsets still to be worked on: a transaction's marker at the end counts, as nobody sees it."""
        return max(0, self.end - self.position)


def measured(
    before: Mapping[TopicPartition, InputProgress],
    done_to: Iterable[tuple[TaskId, TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, InputProgress]:
    """The next measurement after ``before``. Partitions whose end is not known yet are left out."""
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
