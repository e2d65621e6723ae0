"""What a serde is. What must not live here: any particular one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")
Field = Literal["key", "value"]

CODING_FAULTS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What serializers raise for values and bytes that they cannot code."""


@dataclass(frozen=True, slots=True, eq=False)
class Serde(Generic[T]):
    """Turn values into bytes and back (Kafka: ``Serde``).

    A serde of your own is a name and two functions::

        money = Serde("cents", lambda cents: b"%d" % cents, int)

    - ``name``: what the bytes are, for errors.
    - ``serialize``: value -> bytes. It never gets None, which is a record without key or value, or a deletion.
    - ``deserialize``: bytes -> value.
    - ``faults``: errors by which the functions refuse a value or bytes. They are raised as ``SerializationError``.
    - ``bind``: takes a topic, and ``key`` or ``value``; returns the serde for these. None if all topics are alike.
    """

    name: str
    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    faults: tuple[type[Exception], ...] = CODING_FAULTS
    bind: Callable[[str, Field], Serde[T]] | None = None

    def for_topic(self, topic: str, field: Field) -> Serde[T]:
        """Return the serde for the keys or values of a topic (``field``: ``key`` or ``value``)."""
        return self if self.bind is None else self.bind(topic, field)

    def __repr__(self) -> str:
        return f"Serde({self.name!r})"
