"""The record that a task is at work on: what is written meanwhile takes its time and its headers (Kafka: ``ProcessorRecordContext``).

What lives here: who remembers it, and the batch that a function is given, which tells it. What must not: what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from kstreams_assign.tasks.record import Record


class AtWork:
    """Remembers a record. Until a task has had one: none of any topic, at ``now_ms``."""

    __slots__ = ("record",)

    def __init__(self, now_ms: int) -> None:
        self.record = Record("", -1, -1, now_ms, None, None)


class Batch(Sequence[Record]):
    """The next records of a task, oldest first. The record taken last, by going through them or by its number, is the one at work.

    A slice is a plain list.
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
