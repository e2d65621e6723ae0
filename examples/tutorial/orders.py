"""Add up orders per customer: ``python orders.py localhost:9092 STATE_DIR``."""

import json
import logging
import signal
import sys
from collections.abc import Sequence

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def regroup(task: Task, orders: Sequence[Record]) -> None:
    """Send each new order on by its customer; skip repeated orders, set unreadable ones aside."""
    seen = task.store("seen")
    for order in orders:
        try:
            content = json.loads(order.value or b"")
            customer, amount = content["customer"].encode(), int(content["amount"])
        except (ValueError, LookupError, TypeError, AttributeError):
            task.emit("bad-orders", order.key, order.value)
            continue
        if order.key is not None and seen.get(order.key) is None:
            seen.put(order.key, b"seen")
            task.emit("by-customer", customer, b"%d" % amount)


def add_up(task: Task, amounts: Sequence[Record]) -> None:
    """Keep the number of orders and their sum for each customer."""
    totals = task.store("totals")
    for amount in amounts:
        if amount.key is not None and amount.value is not None:
            total = json.loads(totals.get(amount.key) or b'{"orders": 0, "amount": 0}')
            total["orders"] += 1
            total["amount"] += int(amount.value)
            totals.put(amount.key, json.dumps(total).encode())
            task.emit("customer-totals", amount.key, json.dumps(total).encode())


logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
logging.getLogger("kstreams_assign").setLevel(logging.INFO)  # what the worker does; the Kafka clients warn only
config = Config(
    application_id="orders-app",
    bootstrap_servers=sys.argv[1],
    state_dir=sys.argv[2],
    num_standby_replicas=1,  # one more replica of each store, in another process
    session_timeout_ms=10_000,  # a killed process is missed after 10 seconds
)
worker = Worker(
    config,
    [
        Subtopology(regroup, sources=["orders"], stores=["seen"], sinks=["by-customer", "bad-orders"]),
        Subtopology(add_up, repartition_sources=["by-customer"], stores=["totals"], sinks=["customer-totals"]),
    ],
)
for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C and kill: commit, close the tasks, leave the group
    signal.signal(number, lambda *_: worker.close())
worker.run()
