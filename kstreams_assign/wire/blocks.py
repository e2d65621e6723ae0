"""Rows of fixed size, read and written a column at a time, never a row.

What lives here: a block of such rows as columns, and the ``struct`` calls under it. What must not: arrays whose rows
differ in size (``arrays``). The idea: a member with 1,000 tasks sends 1,000 rows, and whoever reads them wants one
column at once, or only to know whether two columns are those it has seen before. So nothing is unpacked until it is
asked for, and then in one ``struct`` call for many rows. A nullable field counts as fixed while every value is null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kstreams_assign.wire.fields import Fields

ROWS_AT_ONCE = 1024
"""Rows per ``struct`` call: bounds what one compiled struct can weigh, whatever an array claims to hold."""

ROWS_EXACT_MAX = 64
"""Up to here a struct is compiled for a number of rows; above, numbers of rows are made of powers of two."""


class _Place(NamedTuple):
    """Where a field stands in a row. ``null`` are the bytes that stand for null, if it may be that."""

    at: int
    code: str
    size: int
    null: bytes


class Shape:
    """What one row looks like, compiled once for each array of a layout."""

    __slots__ = ("_patterns", "codes", "places", "row_size")

    def __init__(self, fields: Fields) -> None:
        self.codes = "".join(field.code for field in fields.values())
        self.row_size = struct.calcsize(f">{self.codes}")
        self.places: dict[str, _Place] = {}
        self._patterns: dict[tuple[str, str], str] = {}
        at = 0
        for name, field in fields.items():
            size = struct.calcsize(f">{field.code}")
            null = b"" if field.null_mark is None else struct.pack(f">{field.code}", field.null_mark)
            self.places[name] = _Place(at, field.code, size, null)
            at += size

    def pattern(self, name: str, code: str) -> str:
        """The ``struct`` codes of a row of which only ``code`` is read, where the field ``name`` begins."""
        found = self._patterns.get((name, code))
        if found is None:
            at = self.places[name].at
            found = f"{at}x{code}{self.row_size - at - struct.calcsize('>' + code)}x"
            self._patterns[name, code] = found
        return found

    def read(self, data: bytes, start: int, count: int) -> Block | None:
        """``count`` rows, known to fit, from byte ``start`` on; ``None`` if they are of other sizes after all."""
        raw = data[start : start + count * self.row_size]
        for place in self.places.values():
            for at, byte in enumerate(place.null, place.at):
                if raw[at :: self.row_size].count(byte) != count:
                    return None
        return Block(self, raw, count)

    def write(self, out: bytearray, columns: Sequence[Sequence[Any]]) -> bool:
        """Whether these rows were of fixed size and have been written."""
        count, width = len(columns[0]), len(columns)
        flat = [0] * (count * width)
        for at, (place, column) in enumerate(zip(self.places.values(), columns, strict=True)):
            if not place.null:
                flat[at::width] = column
            elif column.count(None) == count:
                flat[at::width] = struct.unpack(f">{place.code}", place.null) * count
            else:
                return False
        if count <= ROWS_EXACT_MAX:
            out += _struct(self.codes, count).pack(*flat)
            return True
        done = 0
        for rows in _runs(count):
            out += _struct(self.codes, rows).pack(*flat[done : done + rows * width])
            done += rows * width
        return True


class Block(Mapping[str, Sequence[Any]]):
    """Rows of fixed size as columns. Each look-up of a column unpacks it anew."""

    __slots__ = ("_count", "_raw", "_shape")

    def __init__(self, shape: Shape, raw: bytes, count: int) -> None:
        self._shape = shape
        self._raw = raw
        self._count = count

    def __getitem__(self, name: str) -> Sequence[Any]:
        place = self._shape.places[name]
        return (None,) * self._count if place.null else self.read_as(name, place.code)

    def read_as(self, name: str, code: str) -> Sequence[Any]:
        """What begins with the field ``name``, read as another ``struct`` code: two int32 in a row as one int64."""
        pattern = self._shape.pattern(name, code)
        if self._count <= ROWS_EXACT_MAX:
            return _struct(pattern, self._count).unpack(self._raw)
        column: list[Any] = []
        start = 0
        for rows in _runs(self._count):
            column += _struct(pattern, rows).unpack_from(self._raw, start)
            start += rows * self._shape.row_size
        return column

    def bytes_of(self, name: str, code: str) -> bytes:
        """The bytes under ``read_as``: first the first byte of every row, then the second, and so on.

        Equal columns have equal bytes, and they are had without unpacking; ``row_by_row`` puts them in order again.
        """
        at, row_size = self._shape.places[name].at, self._shape.row_size
        return b"".join([self._raw[byte::row_size] for byte in range(at, at + struct.calcsize(">" + code))])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.places)

    def __len__(self) -> int:
        return len(self._shape.places)


def row_by_row(raw: bytes, code: str) -> bytes:
    """What ``bytes_of`` told, in the order of the rows."""
    size = struct.calcsize(">" + code)
    count = len(raw) // size
    rows = bytearray(len(raw))
    for byte in range(size):
        rows[byte::size] = raw[byte * count : (byte + 1) * count]
    return bytes(rows)


def _runs(count: int) -> list[int]:
    """``count`` rows as few calls of few different sizes: 1024 at a time, then powers of two, then what is left."""
    runs = [ROWS_AT_ONCE] * (count // ROWS_AT_ONCE)
    left = count % ROWS_AT_ONCE
    while left > ROWS_EXACT_MAX:
        runs.append(1 << left.bit_length() - 1)
        left -= runs[-1]
    return [*runs, left] if left else runs


@lru_cache(maxsize=512)
def _struct(codes: str, rows: int) -> struct.Struct:
    return struct.Struct(">" + codes * rows)
