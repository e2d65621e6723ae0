"""The slow, obvious twin of ``compile``: reads a record row by row, ignoring speed and hostile input."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from uuid import UUID

from kstreams_assign.wire.compile import holds
from kstreams_assign.wire.fields import TAGGED
from kstreams_assign.wire.schemas import schema_text


def read_record(name: str, version: int, data: bytes):
    """Return the record and the rest of the bytes; arrays of structs are lists of dicts."""
    schema = json.loads(schema_text(name))
    structs = {shared["name"]: shared["fields"] for shared in schema.get("commonStructs", ())}
    twin = _Twin(version, structs, holds(schema["flexibleVersions"], version), io.BytesIO(data))
    return twin.struct(schema["fields"]), twin.source.read()


def rows_of(value):
    """Return a record of the engine in the twin's form: columns become rows."""
    if isinstance(value, tuple):  # a column of single values
        return list(value)
    if not isinstance(value, Mapping) or not value:
        return value
    if not all(isinstance(column, list | tuple) for column in value.values()):  # a struct
        return {name: _tags(part) if name == TAGGED else rows_of(part) for name, part in value.items()}
    columns = {
        name: [_tags(cell) if name == TAGGED else rows_of(cell) for cell in column] for name, column in value.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _tags(fields):
    return {name: rows_of(value) for name, value in fields.items()}


class _Twin:
    def __init__(self, version, structs, flexible, source):
        self.version = version
        self.structs = structs
        self.flexible = flexible
        self.source = source

    def struct(self, fields):
        held = [field for field in fields if holds(field["versions"], self.version)]
        record = {field["name"]: self.field(field) for field in held if "tag" not in field}
        if self.flexible:
            known = {field["tag"]: field for field in held if "tag" in field}
            record[TAGGED] = dict(self.tagged(known) for _ in range(self.varint()))
        return record

    def field(self, field):
        kind, nullable = field["type"], holds(field.get("nullableVersions", "none"), self.version)
        if kind in self.structs:
            return None if nullable and self.number("b") < 0 else self.struct(self.structs[kind])
        if not kind.startswith("[]"):
            return self.single(kind)
        read_element = (
            (lambda: self.struct(self.structs[kind[2:]])) if kind[2:] in self.structs else lambda: self.single(kind[2:])
        )
        count = self.varint() - 1 if self.flexible else self.number("i")
        return None if count < 0 else [read_element() for _ in range(count)]

    def tagged(self, known):
        tag, size = self.varint(), self.varint()
        return (known[tag]["name"], self.field(known[tag])) if tag in known else (tag, self.source.read(size))

    def single(self, kind):
        if kind in INTEGERS:
            return self.number(INTEGERS[kind])
        if kind == "uuid":
            return UUID(bytes=self.source.read(16))
        if kind == "javaChars":
            return self.source.read(2 * self.number("i")).decode("utf-16-be") or None
        if kind == "javaUtf":
            return _java_utf(self.source.read(self.number("H")))
        size = self.varint() - 1 if self.flexible else self.number({"string": "h", "bytes": "i"}[kind])
        raw = None if size < 0 else self.source.read(size)
        return raw.decode() if raw is not None and kind == "string" else raw

    def number(self, code):
        form = struct.Struct(f">{code}")
        return form.unpack(self.source.read(form.size))[0]

    def varint(self):
        byte = self.number("B")
        return byte if byte < 128 else byte - 128 + 128 * self.varint()


INTEGERS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}


def _java_utf(raw: bytes) -> str:
    # CESU-8 with a two-byte NUL: read each surrogate by itself, then let UTF-16 join the pairs.
    units = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
