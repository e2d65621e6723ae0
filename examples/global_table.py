"""Name the country of each shipment from a global table: ``python global_table.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, GlobalTable, Record, Subtopology, Task, Worker


def name_countries(task: Task, shipments: Sequence[Record]) -> None:
    names = task.global_table("countries").get_many([shipment.value or b"" for shipment in shipments])
    for shipment, name in zip(shipments, names, strict=True):
        task.emit("named-shipments", shipment.key, name or b"unknown", timestamp_ms=shipment.timestamp_ms)


config = Config(application_id="named-shipments", bootstrap_servers=sys.argv[1])
subtopology = Subtopology(name_countries, sources=["shipments"], sinks=["named-shipments"])
countries = GlobalTable("countries", topic="country-codes")
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [subtopology], global_tables=[countries]).run()
