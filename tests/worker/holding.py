"""A process that holds a global table, to be killed: ``python -m tests.worker.holding BROKER APP TOPIC STATE_DIR``."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence

from kstreams_assign import Config, Event, GlobalTable, Record, Subtopology, Task, Worker


def nothing(_task: Task, _records: Sequence[Record]) -> None:
    """Work on nothing."""


def tell(event: Event) -> None:
    sys.stdout.write(json.dumps(event.as_dict()) + "\n")
    sys.stdout.flush()


def main(broker: str, name: str, topic: str, state_dir: str) -> None:
    """Work until the end of standard input."""
    config = Config(application_id=name, bootstrap_servers=broker, state_dir=state_dir)
    topology = [Subtopology(nothing, sources=[f"{name}-in"])]
    worker = Worker(config, topology, global_tables=[GlobalTable("countries", topic=topic)], on_event=tell)
    threading.Thread(target=lambda: (sys.stdin.read(), worker.close()), daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
