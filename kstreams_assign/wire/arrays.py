"""Arrays as columns: one sequence for each field of a struct, however many rows there are.

This module counts an array's rows and reads them either as a block, where every row has the same size, or row by row.
``compile`` reads schemas; ``blocks`` makes the ``struct`` calls for many rows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kstreams_assign.wire.blocks import Shape
from kstreams_assign.wire.compact import read_compact_length, write_varint
from kstreams_assign.wire.fields import Columns, Field, Fields, read_compact_count
from kstreams_assign.wire.primitives import INT32, Source


def single_values(element: Field, flexible: bool, path: str) -> Field:
    """Return a field for an array of single values: the only column of an array of structs."""
    columns = array({"": element}, flexible, path)

    def write(out: bytearray, values: Sequence[Any] | None) -> None:
        columns.write(out, None if values is None else {"": values})

    return Field(lambda source: columns.read(source)[""], write, columns.size_min)


def array(fields: Fields, flexible: bool, path: str) -> Field:
    """Return a field for an array of structs, as columns. A ``flexible`` version counts its rows in a varint."""
    row_size_min = sum(field.size_min for field in fields.values())
    shape = Shape(fields) if all(field.code for field in fields.values()) else None

    def read(source: Source) -> Columns:
        count = read_compact_count(source, row_size_min, path) if flexible else source.length(INT32, row_size_min, path)
        block = None if shape is None else shape.read(source.data, source.at, count)
        if block is None:
            return _read_rows(fields, source, count)
        source.at += count * row_size_min
        return block

    def write(out: bytearray, columns: Columns | None) -> None:
        if columns is None:
            raise struct.error("null where a value is required")
        ordered = [columns[name] for name in fields]
        if flexible:
            write_varint(out, len(ordered[0]) + 1)
        else:
            out += INT32.pack(len(ordered[0]))
        if any(ordered) and not (shape and shape.write(out, ordered)):
            _write_rows(fields, out, ordered)

    return Field(read, write, 1 if flexible else INT32.size)


def nullable(items: Field, path: str) -> Field:
    """Return the field for an array of a flexible version that may be null; ``items`` is the array that may not."""

    def read(source: Source) -> Any:
        start = source.at
        if read_compact_length(source, 0, path) is None:
            return None
        source.at = start
        return items.read(source)

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            write_varint(out, 0)
        else:
            items.write(out, values)

    return Field(read, write, items.size_min)


def _read_rows(fields: Fields, source: Source, count: int) -> Columns:
    columns: dict[str, list[Any]] = {name: [] for name in fields}
    if not count:
        return columns
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
