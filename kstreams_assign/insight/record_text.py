"""Records as text: from a line to key and value, and from what others wrote to something readable.

What must not live here: reading, writing, printing.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from kstreams_assign.tasks.record import Record

NO_BYTES = "(none)"
"""How a key or a value is shown that a record does not have."""


def split_line(line: bytes, separator: bytes) -> tuple[bytes | None, bytes]:
    """Return key and value of a line, split at the first ``separator``; without it the line is the value of no key."""
    if not separator or separator not in line:
        return None, line
    key, _, value = line.partition(separator)
    return key, value


def readable(data: bytes | None) -> str:
    """Return UTF-8 text as it is; other bytes and control characters as Python writes them (``\\x00``, ``\\n``)."""
    if data is None:
        return NO_BYTES
    return printable(data.decode("utf-8", "backslashreplace"))


def printable(text: str, keep: str = "") -> str:
    """Escape what a terminal might obey: characters that are neither printable nor in ``keep``."""
    return "".join(
        char
        if char.isprintable() or unicodedata.category(char) == "Zs" or char in keep
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def as_facts(record: Record) -> dict[str, Any]:
    """Return a record for JSON: UTF-8 as a string, other bytes as ``{"hex": ...}``."""
    facts = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": json_value(record.key),
        "value": json_value(record.value),
    }
    if record.headers:
        facts["headers"] = [[name, json_value(value)] for name, value in record.headers]
    return facts


def json_value(data: bytes | None) -> str | dict[str, str] | None:
    """Return UTF-8 as a string, other bytes as ``{"hex": ...}``."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}
