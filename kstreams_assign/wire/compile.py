"""A schema and a version, compiled once into one reader and one writer.

What lives here: the engine. What must not: anything about one message; layouts stand in ``protocol/*.json`` alone.

The idea: a *record* is the fields of one version in wire order, a dict by field name. An array of structs is read
as *columns*, one list per field, because rows of fixed size then go through one ``struct`` call, and a member with
1,000 tasks has 1,000 such rows. Nullable strings join in as long as all of them are null, which is the rule.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.wire.primitives import INT32, NULLABLES, PRIMITIVES, Primitive, Source
from kstreams_assign.wire.schemas import schema_text

Record = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]
Schema = Mapping[str, Any]

ROWS_AT_ONCE = 1024
"""Rows per ``struct`` call: bounds what one compiled struct can weigh, whatever an array claims to hold."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of one version, compiled. ``code`` and ``null_mark`` are as in ``Primitive``."""

    read: Callable[[Source], Any]
    write: Callable[[bytearray, Any], None]
    size_min: int
    code: str = ""
    null_mark: int | None = None


Fields = Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of one message."""

    message: str
    fields: Fields

    def read(self, data: bytes) -> tuple[Record, int]:
        """The record and where it ended; what follows is the caller's. Raises ``MalformedUserData``."""
        source = Source(data, self.message)
        record = {name: field.read(source) for name, field in self.fields.items()}
        return record, source.at

    def write(self, record: Record) -> bytearray:
        """The bytes. Raises ``ConfigError`` for a value that its field cannot hold."""
        out = bytearray()
        for name, field in self.fields.items():
            try:
                field.write(out, record[name])
            except struct.error as wrong:
                raise ConfigError(f"{self.message}: {name} cannot hold this value: {wrong}") from None
        return out


@cache
def layout(name: str, version: int) -> Layout:
    """The compiled layout of ``protocol/NAME.json`` in one version. ``ConfigError`` if it lacks that version."""
    schema = _schema(name)
    if not holds(schema["validVersions"], version):
        raise ConfigError(f"{name} version {version} is not one of {schema['validVersions']}")
    structs = {one["name"]: one for one in schema.get("commonStructs", ())}
    return Layout(f"{schema['name']} version {version}", _fields(schema["fields"], version, structs, ""))


def valid_versions(name: str) -> str:
    """The versions of ``protocol/NAME.json``, as a range for ``holds``."""
    versions: str = _schema(name)["validVersions"]
    return versions


@cache
def _schema(name: str) -> Schema:
    schema: Schema = json.loads(schema_text(name))
    return schema


def holds(versions: str, version: int) -> bool:
    """Kafka's version ranges: ``3``, ``1-6``, ``7+``, ``none``."""
    if versions == "none":
        return False
    first, _, last = versions.removesuffix("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def _fields(described: Sequence[Schema], version: int, structs: Mapping[str, Schema], path: str) -> Fields:
    return {
        field["name"]: _field(field, version, structs, path + field["name"])
        for field in described
        if holds(field["versions"], version)
    }


def _field(described: Schema, version: int, structs: Mapping[str, Schema], path: str) -> Field:
    kind: str = described["type"]
    if kind.startswith("[]"):
        return _array(_fields(structs[kind[2:]]["fields"], version, structs, f"{path}."), path)
    nullable = holds(described.get("nullableVersions", "none"), version)
    return _bound((NULLABLES if nullable else PRIMITIVES)[kind], path)


def _bound(primitive: Primitive, path: str) -> Field:
    def read(source: Source) -> Any:
        return primitive.read(source, path)

    return Field(read, primitive.write, primitive.size_min, primitive.code, primitive.null_mark)


def _array(fields: Fields, path: str) -> Field:
    """An array of structs, as columns: in blocks where every row has the same size, else row by row."""
    row_size_min = sum(field.size_min for field in fields.values())
    blocks = _Blocks(fields) if all(field.code for field in fields.values()) else None

    def read(source: Source) -> Columns:
        count = source.length(INT32, row_size_min, path)
        return (blocks and blocks.read(source, count)) or _read_rows(fields, source, count)

    def write(out: bytearray, columns: Columns) -> None:
        ordered = [columns[name] for name in fields]
        out += INT32.pack(len(ordered[0]))
        if not (blocks and blocks.write(out, ordered)):
            _write_rows(fields, out, ordered)

    return Field(read, write, INT32.size)


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
