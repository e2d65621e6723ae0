"""Dead letters: input records that the user's function cannot process, with the reason in their headers (KIP-1034).

Key, value, headers and timestamp are those of the input record; the headers ``__streams.errors.*`` are those that Kafka
Streams writes (``ExceptionHandlerUtils``). What must not live here: who decides that a record is set aside, clients.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.record import Record

PREFIX = "__streams.errors."
EXCEPTION, MESSAGE, STACKTRACE = f"{PREFIX}exception", f"{PREFIX}message", f"{PREFIX}stacktrace"
TOPIC, PARTITION, OFFSET = f"{PREFIX}topic", f"{PREFIX}partition", f"{PREFIX}offset"
LEFT_OUT = f"{PREFIX}left_out"
"""Ours: what a dead letter lacks because it would be too large, such as ``value of 1,048,000 bytes``."""

_TEXT_CHARACTERS_MAX = 16_384
RECORD_OVERHEAD_BYTES = 77
"""Of a batch of one record beside key, value and headers.

61 for the batch, and 16 for the record's own numbers (Kafka: ``DefaultRecord``).
"""
_HEADER_OVERHEAD_BYTES = 10
_UNNAMED_MODULES = {"builtins", "__main__"}

Headers = Sequence[tuple[str, bytes | None]]


class Failure(NamedTuple):
    """Why a record could not be processed, as texts."""

    exception: str
    """Name of the error's type, as Java's ``Class.getName``; other writers may have the message behind it."""
    message: str | None
    stacktrace: str

    @property
    def text(self) -> str:
        """Return type and message, as Java's ``Throwable.toString``."""
        if not self.message or self.message == self.exception or ": " in self.exception:
            return self.exception
        return f"{self.exception}: {self.message}".strip()

    @property
    def kind(self) -> str:
        """Return the error's type, without a message behind it."""
        return self.exception.partition(": ")[0]


def failure_of(error: BaseException) -> Failure:
    """Describe an error of the user's function; its type is named as tracebacks name it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in _UNNAMED_MODULES else f"{kind.__module__}.{kind.__qualname__}"
    return Failure(name, str(error) or None, "".join(traceback.format_exception(error)))


def dead_letter(topic: str, record: Record, failure: Failure, bytes_max: int) -> Row:
    """Return the record for the dead-letter topic.

    Parts that would make it larger than ``bytes_max`` are left out, the value first; a header says which.
    """
    about = _about(record, failure)
    own = [header for header in record.headers or () if not header[0].startswith(PREFIX)]
    key, value = record.key, record.value
    left_out: list[str] = []
    headers: list[tuple[str, bytes | None]] = [*own, *about]
    for part in ("value", "headers", "key"):
        if content_bytes(key, value, headers) + RECORD_OVERHEAD_BYTES <= bytes_max:
            break
        if part == "value" and value is not None:
            left_out.append(f"value of {len(value):,} bytes")
            value = None
        elif part == "headers" and own:
            left_out.append(f"{len(own)} headers of the input record")
            own = []
        elif part == "key" and key is not None:
            left_out.append(f"key of {len(key):,} bytes")
            key = None
        headers = [*own, *about, (LEFT_OUT, ", ".join(left_out).encode())]
    return topic, key, value, tuple(headers), None, record.timestamp_ms


def _about(record: Record, failure: Failure) -> list[tuple[str, bytes | None]]:
    texts: Mapping[str, str | None] = {
        EXCEPTION: failure.exception[:_TEXT_CHARACTERS_MAX],
        MESSAGE: None if failure.message is None else failure.message[:_TEXT_CHARACTERS_MAX],
        STACKTRACE: failure.stacktrace[-_TEXT_CHARACTERS_MAX:],
        TOPIC: record.topic,
        PARTITION: str(record.partition),
        OFFSET: str(record.offset),
    }
    return [(name, None if text is None else text.encode(errors="backslashreplace")) for name, text in texts.items()]


def content_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of what key, value and headers need in a batch, beside ``RECORD_OVERHEAD_BYTES``."""
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name.encode(errors="replace")) + len(content or b"") + _HEADER_OVERHEAD_BYTES
    return size


class DeadLetter(NamedTuple):
    """A dead letter, read."""

    record: Record
    """The input record as it was; parts that were left out are missing.

    With offset -1 it is the output of a sidecar's application, which was refused.
    """
    failure: Failure
    left_out: str | None
    """What it lacks; None if it is whole."""


def read_dead_letter(letter: Record) -> DeadLetter | None:
    """Read a record of a dead-letter topic, of this package or Java's; None if its headers do not say whence it is."""
    about = {name: value for name, value in letter.headers or () if name.startswith(PREFIX)}
    topic, partition, offset = (_text(about.get(name)) for name in (TOPIC, PARTITION, OFFSET))
    if not topic or not _is_number(partition) or not (_is_number(offset) or offset == "-1"):
        return None
    assert partition is not None
    assert offset is not None
    own = [header for header in letter.headers or () if not header[0].startswith(PREFIX)]
    record = Record(topic, int(partition), int(offset), letter.timestamp_ms, letter.key, letter.value, own or None)
    failure = Failure(_text(about.get(EXCEPTION)) or "", _text(about.get(MESSAGE)), _text(about.get(STACKTRACE)) or "")
    return DeadLetter(record, failure, _text(about.get(LEFT_OUT)))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _is_number(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdecimal() and len(text) < 20
