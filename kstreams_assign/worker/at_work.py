"""The current record of a task: writes take its time, outputs its headers too (Kafka: ``ProcessorRecordContext``).

The batch that a function gets keeps it up to date. What must not live here: what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import StreamTime


class AtWork:
    """Remember the current record; before the first, a record of no topic at ``now_ms``."""

    __slots__ = ("record",)

    def __init__(self, now_ms: int) -> None:
        self.record = Record("", -1, -1, now_ms, None, None)


class Batch(Sequence[Record]):
    """Hold the next records of a task, oldest first; a slice is a plain list.

    The record that was read last, by iteration or by its index, is the current record.
    """

    __slots__ = ("_at_work", "_records")

    def __init__(self, records: Sequence[Record], at_work: AtWork) -> None:
        self._records = records
        self._at_work = at_work
        at_work.record = records[0]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        at_work = self._at_work
        for record in self._records:
            at_work.record = record
            yield record

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            return self._records[index]
        self._at_work.record = self._records[index]
        return self._at_work.record

    def __repr__(self) -> str:
        return f"Batch({self._records!r})"


class TimedBatch(Batch):
    """A batch that also keeps the stream time, for a task whose entries expire by it."""

    __slots__ = ("_stream",)

    def __init__(self, records: Sequence[Record], at_work: AtWork, stream: StreamTime) -> None:
        super().__init__(records, at_work)
        self._stream = stream
        stream.begin_batch()
        stream.read(records[0].timestamp_ms)

    def __iter__(self) -> Iterator[Record]:
        at_work, stream = self._at_work, self._stream
        for record in self._records:
            at_work.record = record
            stream.now_ms = max(stream.now_ms, record.timestamp_ms)
            yield record

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        records = super().__getitem__(index)
        if isinstance(index, int):
            self._stream.read(self._at_work.record.timestamp_ms)
        return records
