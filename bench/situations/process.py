"""A process of a situation: ``python -m bench.situations.process --name NAME SETTINGS``, with ``Config``'s as JSON.

It counts records a key, and prints its events as JSON lines. SIGTERM closes it; a line ``restart`` on standard input
closes it for a restart.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from threading import Thread
from typing import TextIO

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker

TOPIC, STORE = "situations", "counts"
RESTART = "restart"


def main(arguments: Sequence[str] | None = None) -> None:
    """Work until asked to stop."""
    parser = argparse.ArgumentParser(prog="python -m bench.situations.process")
    parser.add_argument("--name", required=True, help="client.id of its clients, for the broker's quota")
    parser.add_argument("settings", help="those of Config, as JSON")
    given = parser.parse_args(arguments)
    config = Config.from_mapping({**json.loads(given.settings), "client": {"client.id": given.name}})
    worker = Worker(config, [Subtopology(count, sources=[TOPIC], stores=[STORE])], on_event=_print)
    signal.signal(signal.SIGTERM, lambda _number, _frame: worker.close())
    Thread(target=_obey, args=(worker, sys.stdin), name="control", daemon=True).start()
    worker.run()


def count(task: Task, records: Sequence[Record]) -> None:
    """Count the records of each key."""
    store = task.store(STORE)
    for record in records:
        assert record.key is not None
        store.put(record.key, str(int(store.get(record.key) or b"0") + 1).encode())


def _print(event: Event) -> None:
    print(json.dumps(event.as_dict()), flush=True)


def _obey(worker: Worker, control: TextIO) -> None:
    for line in control:
        worker.close(restart=line.strip() == RESTART)


if __name__ == "__main__":
    main()
