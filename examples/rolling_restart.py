"""Count visits; on SIGTERM, close for a restart: ``python rolling_restart.py localhost:9092 NAME``."""

import signal
import sys
from collections.abc import Sequence

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.events import RestartAnnouncedEvent, RunningEvent


def count(task: Task, visits: Sequence[Record]) -> None:
    totals = task.store("totals")
    for visitor in (visit.key for visit in visits if visit.key is not None):
        total = int(totals.get(visitor) or 0) + 1
        totals.put(visitor, b"%d" % total)
        task.emit("visit-totals", visitor, b"%d" % total)


def show(event: Event) -> None:
    if isinstance(event, RunningEvent):
        print(f"runs {event.task}: {event.restored} records restored", flush=True)
    elif isinstance(event, RestartAnnouncedEvent):
        print("the group waits" if event.awaited else "no task waits", flush=True)


servers, name = sys.argv[1:3]
config = Config(
    application_id="visits",
    bootstrap_servers=servers,
    state_dir=f"state-{name}",
    scheduled_rebalance_max_delay_ms=120_000,  # our machines need up to two minutes
)
topology = [Subtopology(count, sources=["visits"], stores=["totals"], sinks=["visit-totals"])]
worker = Worker(config, topology, on_event=show)
signal.signal(signal.SIGTERM, lambda *_: worker.close(restart=True))
worker.run()
