"""Translation between the columns of a record and shared nouns: task ids and partitions. Both messages use it.

The layouts of the messages are elsewhere (``protocol/``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.wire.fields import Columns
from kstreams_assign.wire.versions import NAMED_TOPOLOGY_VERSION

# A named tuple's own constructor is Python code; thousands of these are made for each rebalance.
_task_id: Callable[[Iterable[Any]], TaskId] = partial(tuple.__new__, TaskId)
_partition: Callable[[Iterable[Any]], TopicPartition] = partial(tuple.__new__, TopicPartition)


def task_ids(columns: Columns) -> tuple[TaskId, ...]:
    """Return the task of each row. An empty topology name means none, as in Kafka's ``TaskId``."""
    topologies: Iterable[str | None] = repeat(None)
    if any(columns.get("topology", ())):
        topologies = (name or None for name in columns["topology"])
    return tuple(map(_task_id, zip(columns["subtopology"], columns["partition"], topologies, strict=False)))


def task_columns(tasks: Collection[TaskId], version: int) -> dict[str, list[Any]]:
    """Return the columns of these tasks, in order. Raises ``ConfigError`` for a name that ``version`` cannot carry."""
    flat: list[Any] = list(chain.from_iterable(tasks))
    columns, topologies = {"subtopology": flat[::3], "partition": flat[1::3]}, flat[2::3]
    named = any(topologies)
    if version >= NAMED_TOPOLOGY_VERSION:
        columns["topology"] = [name or None for name in topologies] if named else [None] * len(topologies)
    elif named:
        first = next(task for task in tasks if task.topology)
        raise ConfigError(f"task {first}: version {version} carries no named topologies; {NAMED_TOPOLOGY_VERSION} does")
    return columns


def topic_partitions(topics: Iterable[str], partitions: Iterable[int]) -> tuple[TopicPartition, ...]:
    """Return topics and partition numbers as pairs."""
    return tuple(map(_partition, zip(topics, partitions, strict=True)))


def partition_columns(held: Collection[TopicPartition]) -> dict[str, Sequence[Any]]:
    """Return the columns of these partitions, in their order."""
    topics, partitions = zip(*held, strict=True) if held else ((), ())
    return {"topic": topics, "partition": partitions}
