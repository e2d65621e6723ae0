"""Task -> number: offset sums and lags as they are read, thousands at a time.

The mapping, and a cache of recently read tasks; no layouts, and no meaning of the numbers. A leader of 1,000 members
with 1,000 tasks each reads a million task ids, and builds no object for any of them until they are requested; until
then a task is its eight bytes as one number. After a probe a member reports the same tasks again: then only the
numbers are new.
"""

from __future__ import annotations

import struct
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property, lru_cache
from typing import Any

from kstreams_assign.model import TaskId
from kstreams_assign.wire.blocks import ROWS_AT_ONCE, Block, row_by_row
from kstreams_assign.wire.columns import task_ids
from kstreams_assign.wire.fields import Columns

PACKED = "q"
"""A task's subtopology and partition, both int32, as one int64."""

TASKS_KEPT_MAX = 1 << 16
"""More than the tasks of all but the largest groups; about 16 MB."""

NO_TASK = 1 << 63
"""More than an int64 holds."""


def task_numbers(columns: Columns, name: str) -> Mapping[TaskId, int]:
    """Return each row's task -> its number in the column ``name``, in order. Of equal tasks the last counts."""
    numbers = columns[name]
    if isinstance(columns, Block) and len(numbers) <= ROWS_AT_ONCE:
        rows = _rows(columns.bytes_of("subtopology", PACKED))
        if rows.distinct:
            return TaskNumbers(rows, numbers)
    return dict(zip(task_ids(columns), numbers, strict=True))


class _Tasks(dict[int, TaskId]):
    """Packed task -> its only object. Members report the same tasks, and a million objects slow the collector."""

    def __missing__(self, packed: int) -> TaskId:
        if len(self) >= TASKS_KEPT_MAX:
            self.clear()
        low = packed & 0xFFFF_FFFF
        task = self[packed] = TaskId(packed >> 32, low - (low >> 31 << 32))
        return task


_interned_tasks = _Tasks()


class _Rows:
    """Packed tasks in order; the row of each, and the tasks themselves, built on request."""

    def __init__(self, packed: bytes) -> None:
        self._packed = struct.unpack(f">{len(packed) // struct.calcsize('>' + PACKED)}{PACKED}", packed)
        self.distinct = len(set(self._packed)) == len(self._packed)

    @cached_property
    def by_task(self) -> dict[int, int]:
        return dict(zip(self._packed, range(len(self._packed)), strict=True))

    @cached_property
    def tasks(self) -> tuple[TaskId, ...]:
        return tuple(map(_interned_tasks.__getitem__, self._packed))


@lru_cache(maxsize=256)
def _rows(raw: bytes) -> _Rows:
    """Return the rows of recently read tasks; at most 256 times 1,024 are kept."""
    return _Rows(row_by_row(raw, PACKED))


class TaskNumbers(Mapping[TaskId, int]):
    """Two columns: tasks without topology names, whose rows others may share, and the number of each."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, rows: _Rows, numbers: Sequence[int]) -> None:
        self._rows = rows
        self._numbers = numbers

    def __getitem__(self, task: TaskId) -> int:
        row = self._rows.by_task.get(_packed(task))
        if row is None:
            raise KeyError(task)
        return self._numbers[row]

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._rows.tasks)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def items(self) -> ItemsView[TaskId, int]:
        return _Items(self, self._rows, self._numbers)

    def values(self) -> ValuesView[int]:
        return _Values(self, self._numbers)


class _Items(ItemsView[TaskId, int]):
    """Pairs without a look-up for each."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, mapping: TaskNumbers, rows: _Rows, numbers: Sequence[int]) -> None:
        super().__init__(mapping)
        self._rows = rows
        self._numbers = numbers

    def __iter__(self) -> Iterator[tuple[TaskId, int]]:
        return zip(self._rows.tasks, self._numbers, strict=True)


class _Values(ValuesView[int]):
    """The column itself."""

    __slots__ = ("_numbers",)

    def __init__(self, mapping: TaskNumbers, numbers: Sequence[int]) -> None:
        super().__init__(mapping)
        self._numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)


def _packed(task: Any) -> int:
    """Return subtopology and partition as one int64, as in the bytes; ``NO_TASK`` for anything else."""
    if not isinstance(task, TaskId) or task.topology or not -(2**31) <= task.partition < 2**31:
        return NO_TASK
    return task.subtopology << 32 | task.partition & 0xFFFF_FFFF
