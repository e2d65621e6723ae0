"""Single fields as bytes: big-endian integers, Kafka's strings and Java's own two kinds of string.

Reading and writing of one field, and ``Source``, the bounds-checked reader under all of them; no schemas or messages.
A reader never trusts a length: it compares it with the remaining bytes before anything is allocated, so bad input
costs no more than its own size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from kstreams_assign.errors import MalformedUserData

INT8, INT16, INT32, INT64 = (struct.Struct(f">{code}") for code in "bhiq")
UINT16 = struct.Struct(">H")


class Source:
    """Bytes being read from front to back. Every step past the end raises ``MalformedUserData``."""

    __slots__ = ("at", "data", "message")

    def __init__(self, data: bytes, message: str) -> None:
        self.data = data
        self.at = 0
        self.message = message

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.at

    def malformed(self, field: str, why: str) -> MalformedUserData:
        """Return the error to raise, with message and version, field and offset."""
        return MalformedUserData(f"{self.message}: {field} at byte {self.at}: {why}")

    def step(self, size: int, field: str) -> int:
        """Move over ``size`` bytes; return their start."""
        start = self.at
        if size > len(self.data) - start:
            raise self.malformed(field, f"needs {size} bytes, {self.left} are left")
        self.at = start + size
        return start

    def take(self, size: int, field: str) -> bytes:
        start = self.step(size, field)
        return self.data[start : self.at]

    def number(self, form: struct.Struct, field: str) -> int:
        start = self.at
        end = start + form.size
        if end > len(self.data):
            self.step(form.size, field)
        self.at = end
        value: int = form.unpack_from(self.data, start)[0]
        return value

    def length(self, form: struct.Struct, unit: int, field: str) -> int:
        """Read a count of items of at least ``unit`` bytes each; refuse more than can follow."""
        start, end = self.at, self.at + form.size
        left = len(self.data) - end
        if left < 0:
            self.step(form.size, field)
        count: int = form.unpack_from(self.data, start)[0]
        if count < 0 or count * unit > left:
            raise self.malformed(field, f"a length of {count} is impossible, {left} bytes follow")
        self.at = end
        return count


Read = Callable[[Source, str], Any]
Write = Callable[[bytearray, Any], None]


@dataclass(frozen=True, slots=True)
class Primitive:
    """How one field is encoded.

    ``code`` is the ``struct`` code of a field of fixed size. A nullable field has the code of its length instead, and
    in ``null_mark`` the length that means null: while all values are null, such a field has a fixed size too.
    """

    read: Read
    write: Write
    size_min: int
    code: str = ""
    null_mark: int | None = None


def _integer(code: str) -> Primitive:
    form = struct.Struct(f">{code}")

    def read(source: Source, field: str) -> int:
        return source.number(form, field)

    def write(out: bytearray, value: int) -> None:
        out += form.pack(value)

    return Primitive(read, write, form.size, code)


def _read_uuid(source: Source, field: str) -> UUID:
    return process_id(source.take(16, field))


@lru_cache(maxsize=4096)
def process_id(raw: bytes) -> UUID:
    """Return the id with these 16 bytes: the same object for all members that report it, in every round."""
    return UUID(bytes=raw)


def _write_uuid(out: bytearray, value: UUID) -> None:
    out += value.bytes


def _read_bytes(source: Source, field: str) -> bytes:
    return source.take(source.length(INT32, 1, field), field)


def _write_bytes(out: bytearray, value: bytes) -> None:
    out += INT32.pack(len(value))
    out += value


def _read_nullable_bytes(source: Source, field: str) -> bytes | None:
    if source.number(INT32, field) == -1:
        return None
    source.at -= INT32.size
    return _read_bytes(source, field)


def _write_nullable_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += INT32.pack(-1)
    else:
        _write_bytes(out, value)


def _read_string(source: Source, field: str) -> str:
    return utf8_text(source.take(source.length(INT16, 1, field), field))


def _write_string(out: bytearray, value: str) -> None:
    raw = utf8_bytes(value)
    out += INT16.pack(len(raw))
    out += raw


def _read_nullable_string(source: Source, field: str) -> str | None:
    if source.number(INT16, field) == -1:
        return None
    source.at -= INT16.size
    return _read_string(source, field)


def _write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += INT16.pack(-1)
    else:
        _write_string(out, value)


def _read_java_chars(source: Source, field: str) -> str | None:
    units = source.length(INT32, 2, field)
    return source.take(2 * units, field).decode("utf-16-be", "surrogatepass") or None


def _write_java_chars(out: bytearray, value: str | None) -> None:
    raw = (value or "").encode("utf-16-be", "surrogatepass")
    out += INT32.pack(len(raw) // 2)
    out += raw


def _read_java_utf(source: Source, field: str) -> str:
    size = source.length(UINT16, 1, field)
    try:
        return modified_utf8_text(source.take(size, field))
    except ValueError as wrong:
        source.at -= size
        raise source.malformed(field, str(wrong)) from None


def _write_java_utf(out: bytearray, value: str) -> None:
    raw = modified_utf8_bytes(value)
    out += UINT16.pack(len(raw))
    out += raw


PRIMITIVES = {
    "bool": _integer("?"),
    "int8": _integer("b"),
    "int16": _integer("h"),
    "uint16": _integer("H"),
    "int32": _integer("i"),
    "int64": _integer("q"),
    "uuid": Primitive(_read_uuid, _write_uuid, 16),
    "bytes": Primitive(_read_bytes, _write_bytes, 4),
    "string": Primitive(_read_string, _write_string, 2),
    "javaUtf": Primitive(_read_java_utf, _write_java_utf, 2),
}
"""Schema type -> field. ``javaUtf`` is what Java's ``DataOutputStream.writeUTF`` writes."""

NULLABLES = {
    "bytes": Primitive(_read_nullable_bytes, _write_nullable_bytes, 4, "i", null_mark=-1),
    "string": Primitive(_read_nullable_string, _write_nullable_string, 2, "h", null_mark=-1),
    "javaChars": Primitive(_read_java_chars, _write_java_chars, 4, "i", null_mark=0),
}
"""The nullable forms. ``javaChars`` counts UTF-16 units (``writeInt`` and ``writeChars``); null equals empty."""


def utf8_text(raw: bytes) -> str:
    """Decode as Java's ``new String(bytes, UTF_8)``: invalid bytes become U+FFFD."""
    return raw.decode("utf-8", "replace")


def utf8_bytes(text: str) -> bytes:
    """Encode as Java's ``getBytes(UTF_8)``: half a surrogate pair becomes ``?``."""
    return text.encode("utf-8", "replace")


def modified_utf8_bytes(text: str) -> bytes:
    """Encode Java's modified UTF-8: NUL takes two bytes; a character beyond 16 bits takes two 3-byte surrogates."""
    if not text.isascii() and max(text) > "\uffff":
        units = text.encode("utf-16-be", "surrogatepass")
        text = "".join(chr(unit) for (unit,) in UINT16.iter_unpack(units))
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def modified_utf8_text(raw: bytes) -> str:
    """Decode what ``DataInputStream.readUTF`` reads, including overlong forms. Raises ``ValueError`` for the rest."""
    if raw.isascii():
        return raw.decode("ascii")
    units = bytearray()
    at = 0
    while at < len(raw):
        unit, width = _modified_utf8_unit(raw, at)
        units += UINT16.pack(unit)
        at += width
    return units.decode("utf-16-be", "surrogatepass")


def _modified_utf8_unit(raw: bytes, at: int) -> tuple[int, int]:
    """Return one UTF-16 unit and the number of its bytes."""
    first = raw[at]
    if first < 0x80:
        return first, 1
    width = 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
    rest = raw[at + 1 : at + width]
    if not width or len(rest) < width - 1 or any(byte >> 6 != 0b10 for byte in rest):
        raise ValueError(f"byte {at} of the text begins no modified UTF-8 character")
    unit = first & (0x1F if width == 2 else 0x0F)
    for byte in rest:
        unit = unit << 6 | byte & 0x3F
    return unit, width
