"""The application: per customer the sum of all orders, kept in a store and written to a topic.

This is all that a user of the library writes: a function that gets a task and its next records. The store's value also
lists the ids in the order in which they were applied, so that a lost or repeated order shows.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kstreams_assign import Record, Subtopology, Task
from kstreams_assign.demo.orders import read_key, read_value

STORE = "totals"
PROCESS_NAME_BYTES = 8

_TOTAL = struct.Struct(">Q")
_ID = struct.Struct(">I")
_ROW = struct.Struct(f">IIQIQQQ{PROCESS_NAME_BYTES}s")
_NO_ACCOUNT = _TOTAL.pack(0)


class Row(NamedTuple):
    """One record of the output topic: an order, its customer's new total, and who processed it when.

    ``partition`` and ``offset`` are the order's in the input; ``input_ms`` is when it was written there.
    """

    order_id: int
    customer: int
    total_cents: int
    partition: int
    offset: int
    input_ms: int
    processed_ms: int
    process: str


class Account(NamedTuple):
    """A customer's entry in the store: the total, and the ids of the orders in it in the order of application."""

    total_cents: int
    order_ids: tuple[int, ...]


def orders_topic(application_id: str) -> str:
    return f"{application_id}-orders"


def totals_topic(application_id: str) -> str:
    return f"{application_id}-totals"


def totals_app(application_id: str, process_name: str) -> Subtopology:
    """The topology: orders in, the store ``totals``, one row an order out. ``process_name`` signs the rows."""
    orders, totals = orders_topic(application_id), totals_topic(application_id)
    return Subtopology(process=_summing(totals, process_name), sources=[orders], stores=[STORE], sinks=[totals])


def _summing(totals: str, process_name: str) -> Callable[[Task, Sequence[Record]], None]:
    signature = process_name.encode().ljust(PROCESS_NAME_BYTES)

    def sum_orders(task: Task, records: Sequence[Record]) -> None:
        store = task.store(STORE)
        keys = list({record.key: None for record in records if record.key is not None})
        accounts = {key: account or _NO_ACCOUNT for key, account in zip(keys, store.get_many(keys), strict=True)}
        now_ms = time.time_ns() // 1_000_000
        for key, value, record in _keyed(records):
            order_id, cents = read_value(value)
            account = accounts[key]
            total = _TOTAL.unpack_from(account)[0] + cents
            accounts[key] = _TOTAL.pack(total) + account[_TOTAL.size :] + _ID.pack(order_id)
            where = record.partition, record.offset, record.timestamp_ms
            task.emit(totals, key, _ROW.pack(order_id, read_key(key), total, *where, now_ms, signature))
        for key, account in accounts.items():
            store.put(key, account)

    return sum_orders


def _keyed(records: Sequence[Record]) -> Iterator[tuple[bytes, bytes, Record]]:
    return ((r.key, r.value, r) for r in records if r.key is not None and r.value is not None)


def read_account(value: bytes) -> Account:
    """A value of the store."""
    (total,) = _TOTAL.unpack_from(value)
    return Account(total, tuple(order_id for (order_id,) in _ID.iter_unpack(value[_TOTAL.size :])))


def read_rows(values: Iterable[bytes]) -> list[Row]:
    """Values of the output topic, in their order."""
    return [Row._make((*numbers, name.decode().rstrip())) for *numbers, name in _ROW.iter_unpack(b"".join(values))]
