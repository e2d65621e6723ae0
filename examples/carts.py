"""List what is in each customer's cart: ``python carts.py localhost:9092``."""

import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Store, Subtopology, Task, Worker

log = logging.getLogger("carts")


def add(task: Task, records: Sequence[Record]) -> None:
    items = task.store("items")
    for record in records:
        if record.key is not None and record.value is not None:
            customer = record.key + b"/"
            item = customer + record.value
            items.put(item, b"%d" % (int(items.get(item) or 0) + 1))
            cart = [b"%b %b" % (count, key.removeprefix(customer)) for key, count in items.prefix_scan(customer)]
            task.emit("carts", record.key, b", ".join(cart))
    log.info("task %s: about %d items", task.id, items.approximate_count())


logging.basicConfig(level=logging.INFO)
config = Config(application_id="list-carts", bootstrap_servers=sys.argv[1])
items = Store("items", in_memory=True, changelog_config={"segment.ms": 3_600_000})
subtopology = Subtopology(add, sources=["added-items"], stores=[items], sinks=["carts"])
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [subtopology]).run()
