"""Sum JSON orders by customer, without bytes in the function: ``python typed_totals.py localhost:9092``."""

import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

from kstreams_assign import Batch, Config, Subtopology, Task, Worker


@dataclass
class Order:
    amount: int
    note: str | None = None


def add(task: Task, orders: Batch) -> None:
    totals = task.store("totals", key=str, value=int)
    changes = task.sink("order-totals", key=str, value=int)
    for customer, order in orders.pairs(key=str, value=Order):
        if customer is not None and order is not None:
            total = (totals.get(customer) or 0) + order.amount
            totals.put(customer, total)
            changes.emit(customer, total)


config = Config(
    application_id="typed-totals",
    bootstrap_servers=sys.argv[1],
    errors_dead_letter_queue_topic_name="typed-totals-dead-letters",
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    subtopology = Subtopology(
        add, sources=["typed-orders"], stores=["totals"], sinks=["order-totals"], on_error="dead_letter"
    )
    Worker(config, [subtopology]).run()
