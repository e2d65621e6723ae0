"""``decode``: bytes as people have them at hand (hex, base64, a file, standard input) to JSON."""

from __future__ import annotations

import binascii
import re
import sys
from base64 import b64decode
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.files import is_file

HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2}[\s:]*)+)")
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


class Reading(NamedTuple):
    """Bytes, and the form that they were read from: ``hex``, ``base64``, or ``bytes`` as they are."""

    data: bytes
    form: str


def read_bytes(word: str) -> Reading:
    """Return the bytes that ``word`` stands for: ``-``, a file, hex, base64. Raises ``ConfigError`` for none of them.

    A file, or standard input, may hold hex or base64 too. Text that is both is hex.
    """
    if word == "-":
        return _content(sys.stdin.buffer.read())
    path = Path(word)
    if is_file(path):
        try:
            return _content(path.read_bytes())
        except OSError as cause:
            raise ConfigError(f"{path.absolute()}: {cause.strerror}; name a file that can be read") from cause
    decoded = _from_text(word)
    if decoded is None:
        shown = word if len(word) <= 40 else f"{word[:37]}..."
        raise ConfigError(f"{shown!r} is neither hex nor base64, nor a file; write - to read standard input")
    return decoded


def _content(raw: bytes) -> Reading:
    """Return hex or base64 as what it says, anything else as it is."""
    as_it_is = Reading(raw, "bytes")
    try:
        text = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        return as_it_is
    return _from_text(text) or as_it_is


def _from_text(text: str) -> Reading | None:
    if written := HEX.fullmatch(text.strip()):
        return Reading(bytes.fromhex(re.sub(r"[\s:]", "", written[1])), "hex")
    if not BASE64.fullmatch(text):
        return None
    try:
        return Reading(b64decode("".join(text.split()), validate=True), "base64")
    except binascii.Error:
        return None
