"""Arrays as columns: one list for each field of a struct, however many rows there are.

What lives here: the two ways to read and write them, blocks of rows of fixed size and row by row. What must not: the
reading of schemas (``compile``). The idea: rows of fixed size go through one ``struct`` call, because a member with
1,000 tasks has 1,000 of them. Nullable fields join in as long as all of them are null, which is the rule.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kstreams_assign.wire.compact import write_varint
from kstreams_assign.wire.fields import Columns, Field, Fields, read_compact_count
from kstreams_assign.wire.primitives import INT32, Source

ROWS_AT_ONCE = 1024
"""Rows per ``struct`` call: bounds what one compiled struct can weigh, whatever an array claims to hold."""


def single_values(element: Field, flexible: bool, path: str) -> Field:
    """An array of single values: the only column of an array of structs."""
    columns = array({"": element}, flexible, path)

    def write(out: bytearray, values: Sequence[Any]) -> None:
        columns.write(out, {"": values})

    return Field(lambda source: columns.read(source)[""], write, columns.size_min)


def array(fields: Fields, flexible: bool, path: str) -> Field:
    """An array of structs, as columns: in blocks where every row has the same size, else row by row."""
    row_size_min = sum(field.size_min for field in fields.values())
    blocks = _Blocks(fields) if all(field.code for field in fields.values()) else None

    def read(source: Source) -> Columns:
        count = read_compact_count(source, row_size_min, path) if flexible else source.length(INT32, row_size_min, path)
        return (blocks and blocks.read(source, count)) or _read_rows(fields, source, count)

    def write(out: bytearray, columns: Columns) -> None:
        ordered = [columns[name] for name in fields]
        if flexible:
            write_varint(out, len(ordered[0]) + 1)
        else:
            out += INT32.pack(len(ordered[0]))
        if not (blocks and blocks.write(out, ordered)):
            _write_rows(fields, out, ordered)

    return Field(read, write, 1 if flexible else INT32.size)


def _read_rows(fields: Fields, source: Source, count: int) -> Columns:
    columns: dict[str, list[Any]] = {name: [] for name in fields}
    steps = [(columns[name].append, field.read) for name, field in fields.items()]
    for _ in range(count):
        for append, read in steps:
            append(read(source))
    return columns


def _write_rows(fields: Fields, out: bytearray, columns: Sequence[Sequence[Any]]) -> None:
    writes = [field.write for field in fields.values()]
    for row in zip(*columns, strict=True):
        for write, value in zip(writes, row, strict=True):
            write(out, value)


class _Blocks:
    """Rows of fixed size, many to a ``struct`` call. A nullable column counts as fixed while every value is null."""

    def __init__(self, fields: Fields) -> None:
        self.names = tuple(fields)
        self.codes = "".join(field.code for field in fields.values())
        self.row_size = struct.calcsize(f">{self.codes}")
        self.null_marks = [
            (at, field.null_mark) for at, field in enumerate(fields.values()) if field.null_mark is not None
        ]

    def read(self, source: Source, count: int) -> Columns | None:
        """The columns, or ``None`` with nothing consumed if these rows have other sizes.

        ``count`` rows are known to fit: a row of nulls is the smallest there is.
        """
        columns: list[list[Any]] = [[] for _ in self.names]
        for start in range(0, count, ROWS_AT_ONCE):
            block = _block(self.codes, min(ROWS_AT_ONCE, count - start))
            flat = block.unpack_from(source.data, source.at + start * self.row_size)
            for at, column in enumerate(columns):
                column.extend(flat[at :: len(columns)])
        for at, mark in self.null_marks:
            if columns[at].count(mark) != count:
                return None
            columns[at] = [None] * count
        source.at += count * self.row_size
        return dict(zip(self.names, columns, strict=True))

    def write(self, out: bytearray, columns: Sequence[Sequence[Any]]) -> bool:
        """Whether these rows were of fixed size and have been written."""
        count = len(columns[0])
        columns = list(columns)
        for at, mark in self.null_marks:
            if columns[at].count(None) != count:
                return False
            columns[at] = [mark] * count
        for start in range(0, count, ROWS_AT_ONCE):
            rows = min(ROWS_AT_ONCE, count - start)
            flat = [0] * (rows * len(columns))
            for at, column in enumerate(columns):
                flat[at :: len(columns)] = column[start : start + rows]
            out += _block(self.codes, rows).pack(*flat)
        return True


@lru_cache(maxsize=64)
def _block(codes: str, rows: int) -> struct.Struct:
    return struct.Struct(">" + codes * rows)
