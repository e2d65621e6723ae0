"""A worker of large records, as a process: ``python -m tests.worker.large_records SETTINGS TOPIC RECORDS``.

``SETTINGS`` are those of ``Config`` as JSON. It ends when all records are processed and every task runs, and prints the
most memory that it ever had resident, in MiB.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.events import StatusEvent

PARTITIONS = 4
RECORD_BYTES = 100_000
STORES = ("pages", "copies")


def produce(broker: str, topic: str, records: int) -> None:
    """Write the records, each with a key of its own."""
    ClusterAdmin(broker).create_topics({topic: PARTITIONS}, 60)
    with closing(RecordProducer(broker, {"compression.type": "zstd"}, delivery_timeout_ms=120_000)) as producer:
        for number in range(records):
            value = os.urandom(RECORD_BYTES // 10) * 10
            producer.produce(topic, number % PARTITIONS, b"key-%d" % number, value)
        producer.flush(120)


def keep(task: Task, records: Sequence[Record]) -> None:
    """Store each value twice."""
    for name in STORES:
        store = task.store(name)
        for record in records:
            assert record.key is not None
            store.put(record.key, record.value)


def peak_mib() -> float:
    """Return the most memory that this process ever had resident."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main(settings: str, topic: str, records: str) -> None:
    """Be the worker's process."""

    def hear(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.records_total == int(records):
            states = [task.state for task in event.tasks.values()]
            if states == ["running"] * PARTITIONS:
                worker.close()

    config = Config(**json.loads(settings))
    worker = Worker(config, [Subtopology(keep, sources=[topic], stores=STORES)], on_event=hear)
    worker.run()
    print(peak_mib())


if __name__ == "__main__":
    main(*sys.argv[1:])
