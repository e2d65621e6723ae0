"""The slow obvious twin of ``compile``: reads a record row by row, with no regard for speed or for hostile input."""

from __future__ import annotations

import io
import json
import struct
from uuid import UUID

from kstreams_assign.wire.compile import holds
from kstreams_assign.wire.schemas import schema_text


def read_record(name: str, version: int, data: bytes):
    """The record and the rest of the bytes; arrays of structs as lists of dicts."""
    schema = json.loads(schema_text(name))
    structs = {one["name"]: one["fields"] for one in schema["commonStructs"]}
    source = io.BytesIO(data)
    return _struct(schema["fields"], version, structs, source), source.read()


def rows_of(value):
    """A record of the engine in the twin's form: columns become rows."""
    if not isinstance(value, dict):
        return value
    columns = {name: [rows_of(one) for one in column] for name, column in value.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _struct(fields, version, structs, source):
    return {
        field["name"]: _field(field, version, structs, source) for field in fields if holds(field["versions"], version)
    }


def _field(field, version, structs, source):
    kind = field["type"]
    if kind.startswith("[]"):
        return [_struct(structs[kind[2:]], version, structs, source) for _ in range(_number("i", source))]
    return PRIMITIVES[kind](source)


def _number(code, source):
    form = struct.Struct(f">{code}")
    return form.unpack(source.read(form.size))[0]


def _java_utf(raw: bytes) -> str:
    # CESU-8 with a two-byte NUL: read each surrogate by itself, then let UTF-16 join the pairs.
    units = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def _nullable_text(source):
    size = _number("h", source)
    return None if size < 0 else source.read(size).decode()


PRIMITIVES = {
    "int8": lambda source: _number("b", source),
    "int32": lambda source: _number("i", source),
    "int64": lambda source: _number("q", source),
    "uuid": lambda source: UUID(bytes=source.read(16)),
    "bytes": lambda source: source.read(_number("i", source)),
    "string": _nullable_text,
    "javaChars": lambda source: source.read(2 * _number("i", source)).decode("utf-16-be") or None,
    "javaUtf": lambda source: _java_utf(source.read(_number("H", source))),
}
