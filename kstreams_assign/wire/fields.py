"""One field of one version, compiled from a schema: how to read and write it.

The field, the forms of values in a record, and the tagged fields of flexible versions. ``arrays`` has the arrays,
``compile`` reads the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from kstreams_assign.frozen import dataclass
from kstreams_assign.wire.compact import not_null, read_compact_length, read_varint, write_varint
from kstreams_assign.wire.primitives import Primitive, Source

Record = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A field's value as its encoded bytes: written unchanged."""

    raw: bytes


TAGGED = "tagged_fields"
"""The field for all tagged values in a flexible version's record."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of one version, compiled. ``code`` and ``null_mark`` are as in ``Primitive``."""

    read: Callable[[Source], Any]
    write: Callable[[bytearray, Any], None]
    size_min: int
    code: str = ""
    null_mark: int | None = None


Fields = Mapping[str, Field]


def bound(primitive: Primitive, path: str) -> Field:
    """Return the field of a single value; ``path`` names it in errors."""
    if primitive.code and primitive.null_mark is None:
        form = Struct(f">{primitive.code}")
        size, unpack = form.size, form.unpack_from

        def read_number(source: Source) -> Any:
            """Do what ``source.number`` does, in one call: most fields are numbers."""
            start, source.at = source.at, source.at + size
            if source.at > len(source.data):
                source.at = start
                source.step(size, path)
            return unpack(source.data, start)[0]

        return Field(read_number, primitive.write, size, primitive.code)

    def read(source: Source) -> Any:
        return primitive.read(source, path)

    return Field(read, primitive.write, primitive.size_min, primitive.code, primitive.null_mark)


def read_compact_count(source: Source, unit: int, path: str) -> int:
    """Read the count of an array that cannot be null, or of bytes."""
    count: int = not_null(source, read_compact_length(source, unit, path), path)
    return count


def tagged(known: Mapping[int, tuple[str, Field]], path: str) -> Field:
    """Return the tagged fields as one dict: fields of the schema by name, others by number as bytes."""
    tags = {name: tag for tag, (name, _) in known.items()}

    def read(source: Source) -> Record:
        values: dict[Any, Any] = {}
        for _ in range(read_varint(source, path)):
            tag, size = read_varint(source, path), read_varint(source, path)
            end = source.at + size
            name, field = known.get(tag, (tag, None))
            values[name] = field.read(source) if field else source.take(size, path)
            if source.at != end:
                raise source.malformed(path, f"tag {tag} should end at byte {end}")
        return values

    def write(out: bytearray, values: Mapping[Any, Any]) -> None:
        write_varint(out, len(values))
        for name in sorted(values, key=lambda name: tags.get(name, name)):
            raw = bytearray() if name in tags else values[name]
            if name in tags:
                known[tags[name]][1].write(raw, values[name])
            write_varint(out, tags.get(name, name))
            write_varint(out, len(raw))
            out += raw

    return Field(read, write, 1)
