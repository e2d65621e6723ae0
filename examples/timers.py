"""Remind of carts that are not touched for a while: ``python timers.py localhost:9092 1800000``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Timer, Worker

REPORT_INTERVAL_MS = 1_000
IDLE_MS = int(sys.argv[2])


def setup(task: Task) -> None:
    task.every(REPORT_INTERVAL_MS, report, clock="wall")


def report(task: Task, _time_ms: int) -> None:
    carts = sum(1 for _ in task.store("carts").range())
    task.emit("open-carts", b"%d" % task.id.partition, b"%d" % carts)


def touch(task: Task, records: Sequence[Record]) -> None:
    carts = task.store("carts")
    for record in records:
        if record.key is None:
            continue
        carts.put(record.key, record.value)
        if record.value is None:  # the cart was emptied
            task.timers.cancel(record.key)
        else:
            task.timers.set(record.key, task.current_system_time_ms() + IDLE_MS)  # replaces the cart's earlier timer


def remind(task: Task, due: Sequence[Timer]) -> None:
    carts = task.store("carts")
    for timer in due:
        task.emit("reminders", timer.key, carts.get(timer.key))
        carts.delete(timer.key)


config = Config(application_id="carts", bootstrap_servers=sys.argv[1])
subtopology = Subtopology(
    touch,
    sources=["cart-changes"],
    stores=["carts"],
    sinks=["reminders", "open-carts"],
    init=setup,
    timers=remind,
    timers_clock="wall",
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [subtopology]).run()
