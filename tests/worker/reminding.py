"""A worker in its own process that sets a timer for each record: ``python -m tests.worker.reminding SETTINGS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from kstreams_assign import FireTimers, Record, Task, Timer
from tests.worker.process import main


def remind(task: Task, records: Sequence[Record]) -> None:
    """Set the key's timer so many milliseconds after its record, as the value says; an earlier one is replaced."""
    for record in records:
        assert record.key is not None
        task.timers.set(record.key, record.timestamp_ms + int(record.value or b"0"))


def counting(topic: str) -> FireTimers:
    """Return a function that counts each timer, and emits its count."""

    def fire(task: Task, due: Sequence[Timer]) -> None:
        totals = task.store("totals")
        for timer in due:
            total = int(totals.get(timer.key) or 0) + 1
            totals.put(timer.key, b"%d" % total)
            task.emit(topic, timer.key, b"%d" % total)

    return fire


if __name__ == "__main__":
    outputs = f"{json.loads(sys.argv[1])['application_id']}-counts"
    main(sys.argv[1], remind, timers=counting(outputs), timers_clock="wall")
