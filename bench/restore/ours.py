"""Restore with a whole worker. Arguments: servers, application, state directory, source, its partitions, guarantee."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.events import AdoptedEvent, RunningEvent


def main(servers: str, application: str, state: str, source: str, partitions: str, guarantee: str) -> None:
    """Print one JSON line when all tasks run, and end. The time is from the assignment to the last task that runs."""
    began: list[float] = []
    running: dict[str, int] = {}

    def hear(event: Event) -> None:
        if isinstance(event, AdoptedEvent):
            began.append(time.monotonic())
        if isinstance(event, RunningEvent):
            running[event.task] = event.restored
            if len(running) == int(partitions):
                seconds = time.monotonic() - began[0]
                print(json.dumps({"records": sum(running.values()), "seconds": seconds}), flush=True)
                worker.close()

    config = Config(
        application_id=application, bootstrap_servers=servers, state_dir=state, processing_guarantee=guarantee
    )
    worker = Worker(config, [Subtopology(nothing, sources=[source], stores=["totals"])], on_event=hear)
    worker.run()


def nothing(task: Task, records: Sequence[Record]) -> None:
    """The source is empty."""


if __name__ == "__main__":
    main(*sys.argv[1:])
