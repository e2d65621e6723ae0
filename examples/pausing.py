"""Send invoices, and pause on SIGUSR2 until the next one: ``python pausing.py localhost:9092``."""

import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker


def send_invoices(task: Task, purchases: Sequence[Record]) -> None:
    numbers = task.store("numbers")
    for purchase in purchases:
        number = int(numbers.get(b"last") or 0) + 1
        numbers.put(b"last", b"%d" % number)
        task.emit("invoices", purchase.key, b"%d-%d" % (task.id.partition, number))


def toggle() -> None:
    """Pause everything that is active here, or end those pauses. It waits for the commit, so not in the handler."""
    tasks, verb = (worker.resume(), "resumed") if worker.paused() else (worker.pause(), "paused")
    print(f"{verb}: {', '.join(map(str, tasks))}", flush=True)


config = Config(application_id="invoicing", bootstrap_servers=sys.argv[1])
worker = Worker(config, [Subtopology(send_invoices, sources=["purchases"], stores=["numbers"], sinks=["invoices"])])
signal.signal(signal.SIGUSR2, lambda *_: threading.Thread(target=toggle).start())
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    worker.run()
