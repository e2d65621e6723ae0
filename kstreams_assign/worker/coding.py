"""A serde at one place: its errors become ``SerializationError`` that name place, record, type and bytes.

What must not live here: stores, outputs and batches, which use it; serdes themselves.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kstreams_assign.errors import SerializationError
from kstreams_assign.serdes.serde import Field, Serde
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.given import position

T = TypeVar("T")
_SHOWN_BYTES = 32
_SHOWN_CHARACTERS = 60


class Coder(Generic[T]):
    """Write and read the keys or values of one store or topic.

    ``topic`` is what the bytes are written to, ``where`` names the place in errors, and ``at_work`` has the record at
    work then.
    """

    __slots__ = ("_at_work", "_deserialize", "_faults", "_field", "_serde", "_serialize", "_where")

    def __init__(self, serde: Serde[T], topic: str, field: Field, where: str, at_work: AtWork) -> None:
        self._serde = serde.for_topic(topic, field)
        self._serialize = self._serde.serialize
        self._deserialize = self._serde.deserialize
        self._faults = self._serde.faults
        self._field = field
        self._where = where
        self._at_work = at_work

    def write(self, value: T) -> bytes:
        """Return the bytes of a value. Raises ``SerializationError``."""
        try:
            return self._serialize(value)
        except self._faults as cause:
            raise self._unwritable(value, cause) from cause

    def write_or_none(self, value: T | None) -> bytes | None:
        """As ``write``; None stays None."""
        return None if value is None else self.write(value)

    def read(self, data: bytes) -> T:
        """Return the value of bytes. Raises ``SerializationError``."""
        try:
            return self._deserialize(data)
        except self._faults as cause:
            record = self._at_work.record
            raise unreadable(f"{self._where}, ", record, self._field, self._serde, data, cause) from cause

    def read_or_none(self, data: bytes | None) -> T | None:
        """As ``read``; None stays None."""
        return None if data is None else self.read(data)

    def _unwritable(self, value: object, cause: Exception) -> SerializationError:
        record = self._at_work.record
        return SerializationError(
            f"{self._where}, {position(record)}: the {self._field} cannot be written as "
            f"{self._serde.name}: {type(value).__name__} {repr(value)[:_SHOWN_CHARACTERS]}: {_reason(cause)}",
            record.topic,
            record.partition,
            record.offset,
            self._field,
            self._serde.name,
            None,
        )


def unreadable(
    where: str, record: Record, field: Field, serde: Serde[T], data: bytes, cause: Exception
) -> SerializationError:
    """Return the error for bytes that a serde cannot read; ``where`` precedes the record's position."""
    shown = repr(data[:_SHOWN_BYTES]) + ("..." if len(data) > _SHOWN_BYTES else "")
    return SerializationError(
        f"{where}{position(record)}: the {field} cannot be read as {serde.name}: {len(data)} bytes {shown}: "
        f"{_reason(cause)}",
        record.topic,
        record.partition,
        record.offset,
        field,
        serde.name,
        data,
    )


def _reason(cause: Exception) -> str:
    return " ".join(f"{type(cause).__name__}: {cause}".removesuffix(": ").split())
