"""Check what a test passes to the driver: records as ``Task.emit`` checks them, and numbers.

What must not live here: names of topics and stores (``topics``).
"""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign.errors import ConfigError
from kstreams_assign.worker.given import BYTES_OR_NONE

Header = tuple[str, bytes | None]


def whole_number(name: str, value: int) -> int:
    """Return a whole number >= 0. Raises ``ConfigError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name} = {value!r}: must be a whole number >= 0")
    return value


def check_key_or_value(topic: str, what: str, value: object) -> None:
    """Raise ``TypeError`` for a key or value that is neither bytes nor None."""
    if type(value) not in BYTES_OR_NONE:
        raise TypeError(f"pipe to {topic!r}: {what} is {type(value).__name__} {value!r}: must be None or bytes")


def checked_headers(topic: str, headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return header names and values. Raises ``TypeError`` for others than pairs of str and bytes or None."""
    given = tuple(headers)
    for header in given:
        pair = header if isinstance(header, tuple | list) and len(header) == 2 else (None, None)
        if not isinstance(pair[0], str) or type(pair[1]) not in BYTES_OR_NONE:
            raise TypeError(f"pipe to {topic!r}: a header is {header!r}: must be a pair of str and bytes or None")
    return given
