"""Parts of the small messages that members of a streams group write to each other: msgpack maps, checked when read.

What must not live here: what a message means (``leave_messages``, ``join_messages``).
"""

from __future__ import annotations

from typing import Any, TypeVar

from kstreams_assign.errors import MalformedFrame, MalformedUserData
from kstreams_assign.wire.framing import Message, unpack

T = TypeVar("T")


def read_map(value: bytes, subject: str) -> Message:
    """Return the map in these bytes. Raises ``MalformedUserData``, which names the ``subject`` of the message."""
    try:
        return unpack(value)
    except MalformedFrame as cause:
        raise MalformedUserData(f"no message of {subject}: {cause}") from None


def typed(value: Any, kind: type[T], name: str, subject: str) -> T:
    """Return the value of a key. Raises ``MalformedUserData`` for one of another type."""
    if type(value) is not kind:
        raise MalformedUserData(f"{name} of {subject} is a {type(value).__name__}, not a {kind.__name__}")
    return value
