"""The answer to a poll, by records or by columns, bounded in records and bytes.

All sizes here are upper bounds of what msgpack writes, so an answer that fits by them fits into a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.timers import NAME_BYTES_MAX, Timer
from kstreams_assign.wire.framing import FRAME_BYTES_MAX
from kstreams_assign.worker.running import Running

POLLED_BYTES_MAX = 8 << 20
"""Of all records of an answer; a record that has more comes alone."""

ROW_BYTES = 128
"""Of a record beside its task, topic, key, value and headers: field names, numbers, and the lengths of the fields."""

HEADER_BYTES = 11
"""Of a header beside its name and value."""

TIMERS_MAX = 1_000
"""Timers of one answer: with the longest keys they take about half of ``POLLED_BYTES_MAX``."""

TIMER_KEY_BYTES_MAX = 4_096
TIMER_BYTES_MAX = 64 + TIMER_KEY_BYTES_MAX + NAME_BYTES_MAX

_ANSWER_BYTES = 128
"""Of an answer beside its records, timers and stream times."""

_STREAM_TIME_BYTES = 40

_REJECTION_BYTES = 4_096
"""What a record leaves of a frame, at least, so that a session can send it back with the texts of an error."""

_KEY, _VALUE, _HEADERS = itemgetter(4), itemgetter(5), itemgetter(6)


class DueTimer(NamedTuple):
    """A timer of a task, for the session."""

    task: TaskId
    timer: Timer


class Batch(NamedTuple):
    """Records of one partition that the session has not been given yet."""

    running: Running
    partition: TopicPartition
    records: Sequence[Record]


def room_bytes(tasks: int) -> int:
    """Return how many bytes records and timers may have in an answer that has the stream times of so many tasks."""
    return FRAME_BYTES_MAX - max(_REJECTION_BYTES, _ANSWER_BYTES + tasks * _STREAM_TIME_BYTES)


def first_bytes(batch: Batch) -> int:
    """Return the bytes of a batch's first record in an answer."""
    return _overhead(batch) + _size(batch.records[0])


def split(batch: Batch, records_max: int, bytes_max: int) -> tuple[Batch, Batch | None, int]:
    """What fits of a batch (one record at least), what is left, and how many bytes fit."""
    records = batch.records if len(batch.records) <= records_max else batch.records[:records_max]
    overhead = _overhead(batch)
    if not any(map(_HEADERS, records)):
        size = overhead * len(records) + _bytes(map(_KEY, records)) + _bytes(map(_VALUE, records))
        if size <= bytes_max:
            return _cut(batch, len(records), size)
    sizes = list(accumulate(overhead + _size(record) for record in records))
    count = max(1, sum(size <= bytes_max for size in sizes))
    return _cut(batch, count, sizes[count - 1])


def _cut(batch: Batch, count: int, size: int) -> tuple[Batch, Batch | None, int]:
    if count == len(batch.records):
        return batch, None, size
    return batch._replace(records=batch.records[:count]), batch._replace(records=batch.records[count:]), size


def _overhead(batch: Batch) -> int:
    return ROW_BYTES + len(str(batch.running.task.id)) + len(batch.partition.topic)


def _bytes(values: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, values)))


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(
            len(name.encode(errors="replace")) + len(value or b"") + HEADER_BYTES for name, value in record.headers
        )
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
