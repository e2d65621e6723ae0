"""Count stock by article as a member of a streams group: ``python streams_group.py localhost:9092 NAME``."""

import signal
import sys
from collections.abc import Sequence

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.events import RunningEvent, WarmingUpEvent, WarmJoinEvent


def count(task: Task, moves: Sequence[Record]) -> None:
    stock = task.store("stock")
    for move in moves:
        assert move.key is not None
        assert move.value is not None
        total = int(stock.get(move.key) or 0) + int(move.value)
        stock.put(move.key, b"%d" % total)
        task.emit("stock-levels", move.key, b"%d" % total)


def show(event: Event) -> None:
    match event:
        case WarmingUpEvent(tasks=tasks):
            print(f"restores {', '.join(tasks)}", flush=True)
        case WarmJoinEvent(reason=reason):
            print(f"joins: {reason}", flush=True)
        case RunningEvent(task=task):
            print(f"runs {task}", flush=True)


servers, name = sys.argv[1:3]
config = Config(
    application_id="stock",
    bootstrap_servers=servers,
    state_dir=f"state-{name}",
    group_protocol="streams",
)
worker = Worker(config, [Subtopology(count, ["stock-moves"], ["stock"], ["stock-levels"])], on_event=show)
signal.signal(signal.SIGTERM, lambda *_: worker.close())
worker.run()
