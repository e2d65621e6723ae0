"""A struct inside a message: written in place, behind one byte where it may be null.

The byte is negative for null, as in Kafka's generated classes. ``compile`` reads schemas; ``arrays`` has arrays of
structs, which are columns. A struct that is not in an array is a record by itself.
"""

from __future__ import annotations

import struct

from kstreams_assign.wire.fields import Field, Fields, Record
from kstreams_assign.wire.primitives import INT8, Source

_NULL, _PRESENT = -1, 1


def nested(fields: Fields, nullable: bool, path: str) -> Field:
    """Return a field for one struct, or ``None`` where the schema allows it."""

    def read(source: Source) -> Record | None:
        if nullable and source.number(INT8, path) < 0:
            return None
        return {name: field.read(source) for name, field in fields.items()}

    def write(out: bytearray, value: Record | None) -> None:
        if nullable:
            out += INT8.pack(_NULL if value is None else _PRESENT)
        elif value is None:
            raise struct.error("null where a value is required")
        if value is not None:
            for name, field in fields.items():
                field.write(out, value[name])

    return Field(read, write, 1 if nullable else sum(field.size_min for field in fields.values()))
