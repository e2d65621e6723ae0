"""Count each customer's orders by the hour, one result for each hour: ``python hourly_windows.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from kstreams_assign import Batch, Config, Store, Subtopology, Task, Timer, Worker

HOUR_MS = 60 * 60 * 1000
GRACE_MS = 10 * 60 * 1000


@dataclass
class Hour:
    customer: str
    start_ms: int
    orders: int = 0


def count(task: Task, orders: Batch) -> None:
    hours = task.store("hours", key=str, value=Hour)
    late = task.sink("late-orders", key=str, value=bytes)
    for record, (customer, order) in zip(orders, orders.pairs(key=str, value=bytes), strict=True):
        if customer is None:
            continue
        start_ms = record.timestamp_ms - record.timestamp_ms % HOUR_MS
        close_ms = start_ms + HOUR_MS + GRACE_MS
        if close_ms <= (task.current_stream_time_ms() or 0):  # the hour's timer has fired
            late.emit(customer, order)
            continue
        window = f"{customer}@{start_ms}"
        hour = hours.get(window) or Hour(customer, start_ms)
        hours.put(window, Hour(customer, start_ms, hour.orders + 1))
        task.timers.set(window.encode(), close_ms)


def report(task: Task, due: Sequence[Timer]) -> None:
    hours = task.store("hours", key=str, value=Hour)
    results = task.sink("hourly-orders", key=str, value=Hour)
    for timer in due:
        hour = hours.get(timer.key.decode())
        if hour is not None:
            results.emit(hour.customer, hour)


TOPOLOGY = [
    Subtopology(
        count,
        sources=["placed-orders"],
        stores=[Store("hours", ttl_ms=2 * HOUR_MS)],  # longer than HOUR_MS + GRACE_MS, so each timer finds its hour
        sinks=["hourly-orders", "late-orders"],
        timers=report,
    )
]

if __name__ == "__main__":
    config = Config(
        application_id="hourly-windows", bootstrap_servers=sys.argv[1], processing_guarantee="exactly_once_v2"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
        Worker(config, TOPOLOGY).run()
