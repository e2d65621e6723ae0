"""The records that the user's function gets at once, and their keys and values as Python values.

What must not live here: what is written, serdes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar, overload

from kstreams_assign.serdes.as_java import BYTES
from kstreams_assign.serdes.named import serde_of
from kstreams_assign.serdes.serde import Field, Serde
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import StreamTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.coding import unreadable

K = TypeVar("K")
V = TypeVar("V")
_key_of: Callable[[Record], bytes | None] = itemgetter(Record._fields.index("key"))
_timestamp_of: Callable[[Record], int] = itemgetter(Record._fields.index("timestamp_ms"))
_value_of: Callable[[Record], bytes | None] = itemgetter(Record._fields.index("value"))


class Batch(Sequence[Record]):
    """Hold the next records of a task, oldest first; a slice is a plain list.

    The record that was read last, by iteration or by its index, is the current record: writes and outputs take its
    time, and outputs its headers. All records are of one partition. A batch that is read one record after the other
    ends before a record that passes a timer by stream time which the function has set (``Timers.set``).
    """

    __slots__ = ("_at_work", "_records")

    def __init__(self, records: Sequence[Record], at_work: AtWork) -> None:
        self._records = records
        self._at_work = at_work
        at_work.begin(records)

    @property
    def given(self) -> Sequence[Record]:
        """The records that the function was given: not the rest, if the batch has ended before that."""
        return self._records

    def pairs(self, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> Iterator[tuple[K | None, V | None]]:
        """Decode the batch, then iterate over its keys and values; each pair's record becomes the current record.

        ``key`` and ``value`` are serdes, or Python types that stand for some (``Task.store``). A record without key or
        value has None there. Raises ``SerializationError`` for the first record that cannot be decoded, before any
        pair is returned; ``on_error`` of the subtopology sets that record aside.
        """
        keys = self._decoded("key", _key_of, serde_of("key", key))
        values = self._decoded("value", _value_of, serde_of("value", value))
        return self._in_turn(keys, values)

    def keys_as(self, key: type[K] | Serde[K]) -> list[K | None]:
        """Return the decoded keys, None for records without one. Raises ``SerializationError`` as ``pairs`` does."""
        return self._decoded("key", _key_of, serde_of("key", key))

    def values_as(self, value: type[V] | Serde[V]) -> list[V | None]:
        """Return the decoded values, None for records without one. Raises ``SerializationError`` as ``pairs`` does."""
        return self._decoded("value", _value_of, serde_of("value", value))

    def timestamps_ms(self) -> list[int]:
        """Return the records' timestamps, in milliseconds since 1970."""
        return list(map(_timestamp_of, self._records))

    def _in_turn(self, keys: Sequence[K | None], values: Sequence[V | None]) -> Iterator[tuple[K | None, V | None]]:
        at_work = self._at_work
        for record, key, value in zip(self._records, keys, values, strict=True):
            at_work.record = record
            yield key, value

    def _decoded(self, field: Field, data_of: Callable[[Record], bytes | None], serde: Serde[V]) -> list[V | None]:
        """Decode a field of all records. The record that cannot be decoded stays the current record."""
        if serde is BYTES:
            return list(map(data_of, self._records))  # type: ignore[arg-type]  # as V is bytes
        at_work, before = self._at_work, self._at_work.record
        bound = serde.for_topic(before.topic, field)
        deserialize = bound.deserialize
        decoded: list[V | None] = []
        data = None
        try:
            for record in self._records:
                at_work.record = record
                data = data_of(record)
                decoded.append(None if data is None else deserialize(data))
        except bound.faults as cause:
            raise unreadable("", at_work.record, field, bound, data or b"", cause) from cause
        at_work.record = before
        return decoded

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
    """A batch that also keeps the stream time, for a task whose entries expire or whose timers are due by it.

    With ``timers`` by stream time it ends before a record that passes one which the function has set, so that the timer
    comes first. But it keeps its length once the function knows it: by ``len``, a column, a slice, an index ahead, or
    having read it to its end.
    """

    __slots__ = ("_read", "_stream")

    def __init__(self, records: Sequence[Record], at_work: AtWork, stream: StreamTime, *, timers: bool) -> None:
        super().__init__(records, at_work)
        self._stream = stream
        self._read = 1 if timers else len(records)
        """So many records cannot be taken back."""
        stream.begin_batch()
        stream.read(records[0].timestamp_ms)

    def _keep(self) -> int:
        """The function knows the length: nothing is taken back. Return the length."""
        self._read = len(self._records)
        return self._read

    def timestamps_ms(self) -> list[int]:
        self._keep()
        return super().timestamps_ms()

    def keys_as(self, key: type[K] | Serde[K]) -> list[K | None]:
        self._keep()
        return super().keys_as(key)

    def values_as(self, value: type[V] | Serde[V]) -> list[V | None]:
        self._keep()
        return super().values_as(value)

    def _in_turn(self, keys: Sequence[K | None], values: Sequence[V | None]) -> Iterator[tuple[K | None, V | None]]:
        return ((key, value) for _, key, value in zip(self, keys, values, strict=False))

    def __len__(self) -> int:
        return self._keep()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Record]:
        at_work, stream = self._at_work, self._stream
        for index, record in enumerate(self._records):
            if index >= self._read:
                if stream.is_passed_by(record.timestamp_ms):
                    self._records = self._records[:index]
                    return
                self._read = index + 1
            at_work.record = record
            stream.now_ms = max(stream.now_ms, record.timestamp_ms)
            yield record

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice) or not 0 <= index < self._read:
            self._keep()
        records = super().__getitem__(index)
        if isinstance(index, int):
            self._stream.read(self._at_work.record.timestamp_ms)
        return records

    def __repr__(self) -> str:
        return f"TimedBatch({self._records!r})"
