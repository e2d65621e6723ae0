"""Add up orders per customer, ready for operation: ``kstreams-assign run shop:worker --processes 2``."""

from collections.abc import Sequence
from dataclasses import dataclass

from kstreams_assign import Batch, Config, GlobalTable, Store, Subtopology, Task, Timer, Worker

QUIET_MS = 5_000


@dataclass
class Order:
    customer: str
    amount: int


@dataclass
class Total:
    orders: int = 0
    amount: int = 0


def regroup(task: Task, orders: Batch) -> None:
    """Send each new order on by its customer; skip repeated orders."""
    seen = task.store("seen", key=str, value=bool)
    amounts = task.sink("by-customer", key=str, value=int)
    for number, order in orders.pairs(key=str, value=Order):
        if number is not None and order is not None and not seen.get(number):
            seen.put(number, value=True)
            amounts.emit(order.customer, order.amount)


def add_up(task: Task, amounts: Batch) -> None:
    """Keep the total of each customer, and note when the customer will have been quiet for a while."""
    totals = task.store("totals", key=str, value=Total)
    changes = task.sink("customer-totals", key=str, value=Total)
    for customer, amount in amounts.pairs(key=str, value=int):
        if customer is not None and amount is not None:
            total = totals.get(customer) or Total()
            total = Total(total.orders + 1, total.amount + amount)
            totals.put(customer, total)
            changes.emit(customer, total)
            task.timers.set(customer.encode(), task.current_system_time_ms() + QUIET_MS)  # instead of an earlier one


def thank(task: Task, due: Sequence[Timer]) -> None:
    """Thank the customers that have been quiet for a while, by their names."""
    names = task.global_table("names")
    for timer in due:
        task.emit("thanks", timer.key, names.get(timer.key) or timer.key)


TOPOLOGY = [
    Subtopology(
        regroup,
        sources=["orders"],
        stores=[Store("seen", ttl_ms=86_400_000)],  # a day
        sinks=["by-customer"],
        on_error="dead_letter",
    ),
    Subtopology(
        add_up,
        repartition_sources=["by-customer"],
        stores=["totals"],
        sinks=["customer-totals", "thanks"],
        timers=thank,
        timers_clock="wall",
    ),
]
NAMES = GlobalTable("names", topic="customer-names")
config = Config(
    application_id="shop",
    bootstrap_servers="localhost:9092",
    state_dir="state",
    processing_guarantee="exactly_once_v2",
    errors_dead_letter_queue_topic_name="shop-dead-letters",
    memory_limit_bytes=1 << 30,  # of all processes together
    query="127.0.0.1:0",  # answers queries, at a free port
    session_timeout_ms=10_000,
)


def worker() -> Worker:
    """Return the worker of one process, which locks its state directory."""
    return Worker(config, TOPOLOGY, global_tables=[NAMES])
