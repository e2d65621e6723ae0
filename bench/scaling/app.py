"""``java/ScalingApp.java`` as a Python worker: the same topology, arguments, output lines and bytes.

By hand: ``python -m bench.scaling.app HOST:PORT app-id state-dir input output 1 commit.interval.ms=100``. Commands on
standard input: ``close``, ``drain``. The worker also closes when standard input ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import Thread

from bench.scaling.records import COUNT
from kstreams_assign import Config, Record, Subtopology, Task, Worker
from tests.mixed.python_app import EventPrinter, value

STORE = "counts"


def counting(output: str, process: int) -> Callable[[Task, Sequence[Record]], None]:
    """Return the application: it counts each key, and emits the count of each record."""
    signature = bytes([process])

    def count(task: Task, records: Sequence[Record]) -> None:
        counts = task.store(STORE)
        for record in records:
            assert record.key is not None
            assert record.value is not None
            before = counts.get(record.key)
            total = COUNT.pack(1 + (COUNT.unpack(before)[0] if before else 0))
            counts.put(record.key, total)
            task.emit(output, record.key, record.value + total + signature, partition=task.id.partition)

    return count


def main(words: Sequence[str]) -> None:
    """Run until a line ``close``, the end of a drain, or the end of standard input."""
    servers, application, folder, source, output, process, *pairs = words
    settings = {key.replace(".", "_"): value(text) for key, text in (pair.split("=", 1) for pair in pairs)}
    config = Config.from_mapping(
        {"application_id": application, "bootstrap_servers": servers, "state_dir": folder, **settings}
    )
    topology = Subtopology(counting(output, int(process)), sources=[source], stores=[STORE], sinks=[output])
    printer = EventPrinter(application)
    worker = Worker(config, [topology], on_event=printer.hear)
    Thread(target=obey, args=(worker, printer), name="control", daemon=True).start()
    worker.run()


def obey(worker: Worker, printer: EventPrinter) -> None:
    for line in sys.stdin:
        if line.strip() == "close":
            break
        if line.strip() == "stacks":
            printer.say_stacks()
        if line.strip() == "drain":
            worker.drain()
    worker.close()


if __name__ == "__main__":
    main(sys.argv[1:])
