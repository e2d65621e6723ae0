"""Between the columns of a record and the shared nouns: task ids and partitions. Both messages use these.

What must not live here: the layout of either message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.wire.blocks import ROWS_AT_ONCE, Block, columns_of_bytes
from kstreams_assign.wire.fields import Columns
from kstreams_assign.wire.versions import NAMED_TOPOLOGY_VERSION

# A named tuple's own constructor is Python code; thousands of these are made for each rebalance.
_task_id: Callable[[Iterable[Any]], TaskId] = partial(tuple.__new__, TaskId)
_partition: Callable[[Iterable[Any]], TopicPartition] = partial(tuple.__new__, TopicPartition)


def task_ids(columns: Columns) -> tuple[TaskId, ...]:
    """The task of each row. An empty topology name is none, as in Kafka's ``TaskId``."""
    topologies: Iterable[str | None] = repeat(None)
    if any(columns.get("topology", ())):
        topologies = (name or None for name in columns["topology"])
    return tuple(map(_task_id, zip(columns["subtopology"], columns["partition"], topologies, strict=False)))


def task_numbers(columns: Columns, name: str) -> Mapping[TaskId, int]:
    """Each row's task -> its number in the column ``name``, in order. Where a task stands twice, the last counts."""
    numbers = columns[name]
    rows = _rows(columns, len(numbers))
    if len(rows) < len(numbers):
        return dict(zip(task_ids(columns), numbers, strict=True))
    return TaskNumbers(rows, numbers)


def _rows(columns: Columns, count: int) -> Mapping[TaskId, int]:
    """Task -> row. Not made again for tasks that were read lately.

    A leader meets the same tasks again and again: after each probe a member tells those that it told before, and only
    the numbers beside them are new.
    """
    if isinstance(columns, Block) and count <= ROWS_AT_ONCE:
        return _plain_rows(columns.bytes_of("subtopology", "partition"))
    return {task: row for row, task in enumerate(task_ids(columns))}


@lru_cache(maxsize=256)
def _plain_rows(raw: bytes) -> Mapping[TaskId, int]:
    """Of tasks without topology names. No more than 256 times 1,024 tasks are kept."""
    subtopologies, partitions = columns_of_bytes(raw, "ii")
    return _rows({"subtopology": subtopologies, "partition": partitions}, len(partitions))


class TaskNumbers(Mapping[TaskId, int]):
    """Task -> number as two columns: tasks with their rows, which other mappings may share, and the numbers."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, rows: Mapping[TaskId, int], numbers: Sequence[int]) -> None:
        self._rows = rows
        self._numbers = numbers

    def __getitem__(self, task: TaskId) -> int:
        return self._numbers[self._rows[task]]

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, task: object) -> bool:
        return task in self._rows

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def items(self) -> ItemsView[TaskId, int]:
        return _Items(self, self._rows, self._numbers)

    def values(self) -> ValuesView[int]:
        return _Values(self, self._numbers)


class _Items(ItemsView[TaskId, int]):
    """Pairs from two columns, without a look-up for each."""

    __slots__ = ("_columns",)

    def __init__(self, mapping: TaskNumbers, *columns: Iterable[Any]) -> None:
        super().__init__(mapping)
        self._columns = columns

    def __iter__(self) -> Iterator[tuple[TaskId, int]]:
        return zip(*self._columns, strict=True)


class _Values(ValuesView[int]):
    """The column itself."""

    __slots__ = ("_numbers",)

    def __init__(self, mapping: TaskNumbers, numbers: Sequence[int]) -> None:
        super().__init__(mapping)
        self._numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)


def task_columns(tasks: Collection[TaskId], version: int) -> dict[str, list[Any]]:
    """The columns of these tasks, in their order. ``ConfigError`` if one has a name that ``version`` cannot carry."""
    subtopologies, partitions, topologies = map(list, zip(*tasks, strict=True)) if tasks else ([], [], [])
    columns = {"subtopology": subtopologies, "partition": partitions}
    if version >= NAMED_TOPOLOGY_VERSION:
        columns["topology"] = [name or None for name in topologies]
    elif any(topologies):
        named = next(task for task in tasks if task.topology)
        raise ConfigError(f"task {named}: version {version} carries no named topologies; {NAMED_TOPOLOGY_VERSION} does")
    return columns


def topic_partitions(topics: Iterable[str], partitions: Iterable[int]) -> tuple[TopicPartition, ...]:
    """Topics and partition numbers, paired."""
    return tuple(map(_partition, zip(topics, partitions, strict=True)))


def partition_columns(held: Collection[TopicPartition]) -> dict[str, Sequence[Any]]:
    """The columns of these partitions, in their order."""
    topics, partitions = zip(*held, strict=True) if held else ((), ())
    return {"topic": topics, "partition": partitions}
