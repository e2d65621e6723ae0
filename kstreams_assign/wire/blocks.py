"""Rows of fixed size, read and written by columns, never by rows.

A block of such rows as columns, and the ``struct`` calls under it. Arrays whose rows differ in size are in ``arrays``.
A member with 1,000 tasks sends 1,000 rows, and its reader wants one column at once, or only compares two columns with
earlier ones. So nothing is unpacked until it is requested, and then in one ``struct`` call for many rows. A nullable
field counts as fixed while every value is null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kstreams_assign.wire.fields import Fields

ROWS_AT_ONCE = 1024
"""Rows per ``struct`` call: bounds the size of one compiled struct, whatever length an array claims."""

ROWS_EXACT_MAX = 64
"""Up to here a struct is compiled for the exact number of rows; above it, for powers of two."""


class _Place(NamedTuple):
    """The position of a field in a row. ``null`` are the bytes that encode null, if the field is nullable."""

    at: int
    code: str
    size: int
    null: bytes


class Shape:
    """The layout of one row, compiled once for each array of a layout."""

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
        """Return the ``struct`` codes of a row of which only ``code`` is read, at the start of the field ``name``."""
        pattern = self._patterns.get((name, code))
        if pattern is None:
            at = self.places[name].at
            pattern = f"{at}x{code}{self.row_size - at - struct.calcsize('>' + code)}x"
            self._patterns[name, code] = pattern
        return pattern

    def read(self, data: bytes, start: int, count: int) -> Block | None:
        """Read ``count`` rows, known to fit, from byte ``start``; ``None`` if their sizes differ after all."""
        raw = data[start : start + count * self.row_size]
        for place in self.places.values():
            for at, byte in enumerate(place.null, place.at):
                if raw[at :: self.row_size].count(byte) != count:
                    return None
        return Block(self, raw, count)

    def write(self, out: bytearray, columns: Sequence[Sequence[Any]]) -> bool:
        """Write the rows if they are of fixed size; return whether they were."""
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
    """Rows of fixed size as columns. Each look-up of a column unpacks it again."""

    __slots__ = ("_count", "_raw", "_shape")

    def __init__(self, shape: Shape, raw: bytes, count: int) -> None:
        self._shape = shape
        self._raw = raw
        self._count = count

    def __getitem__(self, name: str) -> Sequence[Any]:
        place = self._shape.places[name]
        return (None,) * self._count if place.null else self.read_as(name, place.code)

    def read_as(self, name: str, code: str) -> Sequence[Any]:
        """Read the bytes from the start of the field ``name`` as another ``struct`` code: two int32 as one int64."""
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
        """Return the bytes under ``read_as``: first the first byte of every row, then the second, and so on.

        Equal columns have equal bytes, and no unpacking is needed; ``row_by_row`` restores the order of rows.
        """
        at, row_size = self._shape.places[name].at, self._shape.row_size
        return b"".join([self._raw[byte::row_size] for byte in range(at, at + struct.calcsize(">" + code))])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.places)

    def __len__(self) -> int:
        return len(self._shape.places)


def row_by_row(raw: bytes, code: str) -> bytes:
    """Return the result of ``bytes_of`` in the order of the rows."""
    size = struct.calcsize(">" + code)
    count = len(raw) // size
    rows = bytearray(len(raw))
    for byte in range(size):
        rows[byte::size] = raw[byte * count : (byte + 1) * count]
    return bytes(rows)


def _runs(count: int) -> list[int]:
    """Split ``count`` rows into few calls of few sizes: 1024 at a time, then powers of two, then the rest."""
    runs = [ROWS_AT_ONCE] * (count // ROWS_AT_ONCE)
    left = count % ROWS_AT_ONCE
    while left > ROWS_EXACT_MAX:
        runs.append(1 << left.bit_length() - 1)
        left -= runs[-1]
    return [*runs, left] if left else runs


@lru_cache(maxsize=512)
def _struct(codes: str, rows: int) -> struct.Struct:
    return struct.Struct(">" + codes * rows)
