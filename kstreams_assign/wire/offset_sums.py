"""A subscription's task offset sums, in the three forms that the versions of its layout give them.

========  ===============================================================================================
1-6       two lists: tasks that were active, and standbys. A task that is not running counts as a standby; its
          sum is lost and reads as unknown.
7-9       nested: a subtopology once, then its partitions with their sums. Subtopologies by first appearance.
10-11     flat: one row a task, with the name of its topology.
========  ===============================================================================================

The rest of the message is in ``subscription_info``, the layouts are in ``protocol/SubscriptionInfo.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.wire.columns import task_columns, task_ids
from kstreams_assign.wire.compile import Columns, Record
from kstreams_assign.wire.task_numbers import task_numbers
from kstreams_assign.wire.versions import NAMED_TOPOLOGY_VERSION, OFFSET_SUMS_VERSION

OffsetSums = Mapping[TaskId, int]


def offset_sums(record: Record) -> OffsetSums:
    """Return the sums of a record of any version, in its order. If a task occurs twice, the last counts."""
    if record["version"] >= NAMED_TOPOLOGY_VERSION:
        return task_numbers(record["task_offset_sums"], "offset_sum")
    if record["version"] >= OFFSET_SUMS_VERSION:
        return _from_nested(record["task_offset_sums"])
    running = dict.fromkeys(task_ids(record["prev_tasks"]), RUNNING_OFFSET_SUM)
    return running | dict.fromkeys(task_ids(record["standby_tasks"]), UNKNOWN_OFFSET_SUM)


def offset_sum_fields(sums: OffsetSums, version: int) -> Record:
    """Return the fields of a record of ``version``. Raises ``ConfigError`` for a topology name it cannot carry."""
    if version >= NAMED_TOPOLOGY_VERSION:
        return {"task_offset_sums": {**task_columns(sums, version), "offset_sum": list(sums.values())}}
    if version >= OFFSET_SUMS_VERSION:
        return {"task_offset_sums": _nested(sums, version)}
    running = [task for task, total in sums.items() if total == RUNNING_OFFSET_SUM]
    others = [task for task, total in sums.items() if total != RUNNING_OFFSET_SUM]
    return {"prev_tasks": task_columns(running, version), "standby_tasks": task_columns(others, version)}


def _from_nested(nested: Columns) -> dict[TaskId, int]:
    sums: dict[TaskId, int] = {}
    for subtopology, rows in zip(nested["subtopology"], nested["partition_offset_sums"], strict=True):
        tasks = map(TaskId, repeat(subtopology), rows["partition"])
        sums.update(zip(tasks, rows["offset_sum"], strict=True))
    return sums


def _nested(sums: OffsetSums, version: int) -> Columns:
    flat = task_columns(sums, version)
    nested: dict[int, dict[str, list[Any]]] = {}
    for subtopology, partition, total in zip(flat["subtopology"], flat["partition"], sums.values(), strict=True):
        rows = nested.setdefault(subtopology, {"partition": [], "offset_sum": []})
        rows["partition"].append(partition)
        rows["offset_sum"].append(total)
    return {"subtopology": list(nested), "partition_offset_sums": list(nested.values())}
