"""The answer to a poll, by records or by columns, bounded in records and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.timers import Timer
from kstreams_assign.worker.running import Running

POLLED_BYTES_MAX = 8 << 20
"""Of keys, values and headers; well below a frame, whatever is put around them."""

RECORD_BYTES = 64
"""What a record costs beside its key, value and headers, at most nearly."""


_KEY, _VALUE, _HEADERS = itemgetter(4), itemgetter(5), itemgetter(6)


TIMERS_MAX = 1_000
"""Timers of one answer: with the longest keys they take half of the bytes above."""


class DueTimer(NamedTuple):
    """A timer of a task, for the session."""

    task: TaskId
    timer: Timer


class Batch(NamedTuple):
    """Records of one partition that the session has not been given yet."""

    running: Running
    partition: TopicPartition
    records: Sequence[Record]


def split(batch: Batch, records_max: int, bytes_max: int) -> tuple[Batch, Batch | None, int]:
    """What fits of a batch (one record at least), what is left, and how many bytes fit."""
    records = batch.records if len(batch.records) <= records_max else batch.records[:records_max]
    if not any(map(_HEADERS, records)):
        size = RECORD_BYTES * len(records) + _bytes(map(_KEY, records)) + _bytes(map(_VALUE, records))
        if size <= bytes_max:
            return _cut(batch, len(records), size)
    sizes = list(accumulate(map(_size, records)))
    count = max(1, sum(size <= bytes_max for size in sizes))
    return _cut(batch, count, sizes[count - 1])


def _cut(batch: Batch, count: int, size: int) -> tuple[Batch, Batch | None, int]:
    if count == len(batch.records):
        return batch, None, size
    return batch._replace(records=batch.records[:count]), batch._replace(records=batch.records[count:]), size


def _bytes(values: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, values)))


def _size(record: Record) -> int:
    size = RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(len(name) * 4 + len(value or b"") + 16 for name, value in record.headers)
    return size


def as_timers(timers: Iterable[DueTimer]) -> list[dict[str, Any]]:
    """One map a timer."""
    return [{"task": str(task), **timer._asdict()} for task, timer in timers]


def as_records(batches: Iterable[Batch]) -> dict[str, Any]:
    """One map a record."""
    return {
        "records": [
            {"task": str(batch.running.task.id), **record._asdict()} for batch in batches for record in batch.records
        ]
    }


def as_columns(batches: Iterable[Batch]) -> dict[str, Any]:
    """One map a partition, of arrays that run in step."""
    return {"partitions": [_columns(batch) for batch in batches]}


def _columns(batch: Batch) -> dict[str, Any]:
    _, _, offsets, timestamps, keys, values, headers = zip(*batch.records, strict=True)
    return {
        "task": str(batch.running.task.id),
        "topic": batch.partition.topic,
        "partition": batch.partition.partition,
        "offset": offsets,
        "timestamp_ms": timestamps,
        "key": keys,
        "value": values,
        "headers": headers if any(headers) else None,
    }
