"""A worker process of the chaos group: ``python -m tests.chaos.worker SETTINGS``, a JSON object.

The application uses the public API: per key it keeps the ids that it has applied, and emits each to the output topic.
SIGTERM closes, SIGUSR1 drains, SIGUSR2 sets this process's wall clock an hour off, or right again. Events go to a file,
a line each, so that they outlive a kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kstreams_assign.adapters import clock
from kstreams_assign.events import AdoptedEvent, AssignedEvent, Event, StatusEvent
from tests.chaos.rows import Entry, Row, read_entry, read_id, write_entry, write_row

if TYPE_CHECKING:
    from kstreams_assign import Record, Task

STORE = "applied"
STATUS_EVERY = 10


class Clock:
    """A wall clock that can be set. It replaces the real one before other modules import that by name."""

    def __init__(self, jump_ms: int) -> None:
        self.ahead_ms = 0
        self._jump_ms = jump_ms
        self._real: Callable[[], int] = clock.wall_ms
        clock.wall_ms = self.wall_ms

    def wall_ms(self) -> int:
        return self._real() + self.ahead_ms

    def jump(self) -> None:
        self.ahead_ms = 0 if self.ahead_ms else self._jump_ms


class Diary:
    """The worker's events in a file, and the generation that the processing thread is in.

    In a streams group that is the member epoch at which its tasks were assigned: each task has one owner in one epoch.
    """

    def __init__(self, path: Path) -> None:
        self.generation = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._statuses = 0
        self._epochs: dict[int, int] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, AssignedEvent) and event.epoch is not None:
            self._epochs[event.generation] = event.epoch
        if isinstance(event, AdoptedEvent):  # emitted by the processing thread, before the generation's first record
            self.generation = self._epochs.get(event.generation, event.generation)
        if isinstance(event, StatusEvent):
            self._statuses += 1
            if self._statuses % STATUS_EVERY:
                return
        os.write(self._file, json.dumps({"at": round(time.time(), 3), **event.as_dict()}).encode() + b"\n")


def applying(signature: str, diary: Diary, outputs: str) -> Callable[[Task, Sequence[Record]], None]:
    """Return the application's function."""

    def apply(task: Task, records: Sequence[Record]) -> None:
        store = task.store(STORE)
        for record in records:
            assert record.key is not None
            assert record.value is not None
            number, generation = read_id(record.value), diary.generation
            stored = store.get(record.key)
            ids = (*(read_entry(stored).ids if stored else ()), number)
            store.put(record.key, write_entry(Entry(signature, generation, ids)))
            row = Row(number, record.partition, record.offset, generation, signature)
            task.emit(outputs, record.key, write_row(row), partition=record.partition)

    return apply


def main(text: str) -> None:
    """Run until a signal ends it. Errors are raised."""
    given = json.loads(text)
    wall = Clock(given["jump_ms"])
    signal.signal(signal.SIGUSR2, lambda *_: wall.jump())
    from kstreams_assign import Config, Subtopology, Worker

    diary = Diary(Path(given["events"]))
    process = applying(given["signature"], diary, given["outputs"])
    topology = [Subtopology(process, sources=[given["inputs"]], stores=[STORE], sinks=[given["outputs"]])]
    worker = Worker(Config.from_mapping(given["config"]), topology, on_event=diary.hear)
    for number, call in ((signal.SIGTERM, worker.close), (signal.SIGUSR1, worker.drain)):
        signal.signal(number, lambda _number, _frame, call=call: call())
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1])
