"""The seeded stream of orders, and how an order looks as a record.

Pure: the same seed gives the same orders, so the check at the end knows every id without having written any down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import NamedTuple

CUSTOMERS = 2_000
CENTS_MAX = 10_000

_KEY = struct.Struct(">I")
_VALUE = struct.Struct(">II")


class Order(NamedTuple):
    """One order. ``id`` counts from 0 without a hole."""

    id: int
    customer: int
    cents: int

    @property
    def key(self) -> bytes:
        return _KEY.pack(self.customer)

    @property
    def value(self) -> bytes:
        return _VALUE.pack(self.id, self.cents)


def order_stream(seed: int, customers: int = CUSTOMERS) -> Iterator[Order]:
    """Orders without end; a prefix of them is what a run produces."""
    draw = Random(seed)  # noqa: S311  # repeatable, not secret
    for number in count():
        yield Order(number, draw.randrange(customers), draw.randint(1, CENTS_MAX))


def read_key(key: bytes) -> int:
    """The customer."""
    (customer,) = _KEY.unpack(key)
    return int(customer)


def read_value(value: bytes) -> tuple[int, int]:
    """The order's id and its cents."""
    order_id, cents = _VALUE.unpack(value)
    return order_id, cents
