"""Check what a test passes to the driver: records as ``Task.emit`` checks them, and numbers.

What must not live here: names of topics and stores (``topics``).
"""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign.errors import ConfigError
from kstreams_assign.worker.given import BYTES_OR_NONE, MILLISECONDS, UTF8, is_utf8

Header = tuple[str, bytes | None]


def whole_number(name: str, value: int) -> int:
    """Return a number of milliseconds. Raises ``ConfigError``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MILLISECONDS.most:
        raise ConfigError(f"{name} = {value!r}: must be a whole number >= 0 and below 2^63")
    return value


def check_key_or_value(topic: str, what: str, value: object) -> None:
    """Raise ``TypeError`` for a key or value that is neither bytes nor None."""
    if type(value) not in BYTES_OR_NONE:
        raise TypeError(f"pipe to {topic!r}: {what} is {type(value).__name__} {value!r}: must be None or bytes")


def checked_headers(topic: str, headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return header names and values.

    Raises ``TypeError`` for others than pairs of str and bytes or None, ``ConfigError`` for a name that UTF-8 cannot
    encode.
    """
    given = tuple(headers)
    for header in given:
        pair = header if isinstance(header, tuple | list) and len(header) == 2 else (None, None)
        if not isinstance(pair[0], str) or type(pair[1]) not in BYTES_OR_NONE:
            raise TypeError(f"pipe to {topic!r}: a header is {header!r}: must be a pair of str and bytes or None")
        if not is_utf8(pair[0]):
            raise ConfigError(f"pipe to {topic!r}: a header's name is {pair[0]!r}: must be {UTF8}")
    return given
