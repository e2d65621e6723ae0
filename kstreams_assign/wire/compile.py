"""A schema and a version, compiled once into one reader and one writer.

This is the way from ``protocol/*.json`` to ``fields`` and ``arrays``. Nothing here knows a particular message; layouts
are in those files only. A *record* is the fields of one version in wire order, a dict by field name, in which an array
of structs is stored as columns.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.wire.arrays import array, nullable, single_values
from kstreams_assign.wire.compact import COMPACT_NULLABLES, COMPACT_PRIMITIVES
from kstreams_assign.wire.fields import TAGGED, Columns, Encoded, Field, Fields, Record, bound, tagged
from kstreams_assign.wire.nested import nested
from kstreams_assign.wire.primitives import NULLABLES, PRIMITIVES, Primitive, Source
from kstreams_assign.wire.schemas import schema_text

__all__ = ["Columns", "Layout", "Record", "holds", "layout", "valid_versions"]

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of one message."""

    message: str
    fields: Fields

    def read(self, data: bytes) -> tuple[Record, int]:
        """Return the record and its end; the caller reads what follows. Raises ``MalformedUserData``."""
        source = Source(data, self.message)
        record = {name: field.read(source) for name, field in self.fields.items()}
        return record, source.at

    def write(self, record: Record, rest: bytes = b"") -> bytes:
        """Return the bytes, then ``rest``. Raises ``ConfigError`` for a value that its field cannot hold."""
        out = bytearray()
        parts: list[bytes | bytearray] = [out]
        name = ""
        try:
            for name, field in self.fields.items():
                value = record[name]
                # host maps can take 100 kB and are written for each member, so they are copied only once
                if value.__class__ is Encoded:
                    parts += (value.raw, out := bytearray())
                else:
                    field.write(out, value)
        except struct.error as wrong:
            raise self._refused(name, wrong) from None
        return b"".join([*parts, rest])

    def encoded(self, name: str, value: Any) -> Encoded:
        """Return one field's bytes, to be put into many records; empty if this version has no such field."""
        out = bytearray()
        try:
            if name in self.fields:
                self.fields[name].write(out, value)
        except struct.error as wrong:
            raise self._refused(name, wrong) from None
        return Encoded(bytes(out))

    def _refused(self, name: str, wrong: struct.error) -> ConfigError:
        return ConfigError(f"{self.message}: {name} cannot hold this value: {wrong}")


@cache
def layout(name: str, version: int) -> Layout:
    """Return the compiled layout of ``protocol/NAME.json`` in one version. Raises ``ConfigError`` if it has none."""
    schema = _schema(name)
    if not holds(schema["validVersions"], version):
        raise ConfigError(f"{name} version {version} is not one of {schema['validVersions']}")
    structs = {shared["name"]: shared for shared in schema.get("commonStructs", ())}
    form = _Form(version, structs, holds(schema["flexibleVersions"], version))
    return Layout(f"{schema['name']} version {version}", _fields(schema["fields"], form, ""))


def valid_versions(name: str) -> str:
    """Return the versions of ``protocol/NAME.json``, as a range for ``holds``."""
    versions: str = _schema(name)["validVersions"]
    return versions


@cache
def _schema(name: str) -> Schema:
    schema: Schema = json.loads(schema_text(name))
    return schema


def holds(versions: str, version: int) -> bool:
    """Return whether Kafka's version range (``3``, ``1-6``, ``7+``, ``none``) contains the version."""
    if versions == "none":
        return False
    first, _, last = versions.removesuffix("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


@dataclass(frozen=True, slots=True)
class _Form:
    """What all fields of one version of a schema share. ``flexible`` as in KIP-482."""

    version: int
    structs: Mapping[str, Schema]
    flexible: bool


def _fields(described: Sequence[Schema], form: _Form, path: str) -> Fields:
    """Return the fields of this version in wire order; in a flexible version tagged fields come last, as one field."""
    held = [field for field in described if holds(field["versions"], form.version)]
    plain = {field["name"]: _field(field, form, path + field["name"]) for field in held if "tag" not in field}
    if not form.flexible:
        return plain
    by_tag = {
        field["tag"]: (field["name"], _field(field, form, path + field["name"])) for field in held if "tag" in field
    }
    return plain | {TAGGED: tagged(by_tag, path + TAGGED)}


def _field(described: Schema, form: _Form, path: str) -> Field:
    kind: str = described["type"]
    may_be_null = holds(described.get("nullableVersions", "none"), form.version)
    if kind.startswith("[]"):
        items = _array(kind[2:], form, path)
        return nullable(items, path) if may_be_null else items
    if kind in form.structs:
        return nested(_fields(form.structs[kind]["fields"], form, f"{path}."), may_be_null, path)
    return bound(_primitives(form.flexible, may_be_null)[kind], path)


def _array(kind: str, form: _Form, path: str) -> Field:
    if kind in form.structs:
        return array(_fields(form.structs[kind]["fields"], form, f"{path}."), form.flexible, path)
    return single_values(bound(_primitives(form.flexible, nullable=False)[kind], path), form.flexible, path)


def _primitives(flexible: bool, nullable: bool) -> Mapping[str, Primitive]:
    if flexible:
        return COMPACT_NULLABLES if nullable else COMPACT_PRIMITIVES
    return NULLABLES if nullable else PRIMITIVES
