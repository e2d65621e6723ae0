"""Report sessions that end, half an hour after their last record: ``python ended_sessions.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Subtopology, Task, Worker

KEEP_MS = 30 * 60 * 1000


def remember(task: Task, records: Sequence[Record]) -> None:
    sessions, by_time = task.store("sessions"), task.store("sessions-by-time")
    for record in records:
        if record.key is not None and record.value is not None:
            time = record.timestamp_ms.to_bytes(8)  # big-endian, so byte order is the order of time
            if (old := sessions.get(record.key)) is not None:
                time = max(time, old[:8])  # a late record does not make the session older
                by_time.delete(old[:8] + record.key)
            sessions.put(record.key, time + record.value)
            by_time.put(time + record.key, b"")
    committed_ms = task.partition_time("clicks") or 0
    expire(task, before_ms=max(committed_ms, *(record.timestamp_ms for record in records)) - KEEP_MS)


def expire(task: Task, before_ms: int) -> None:
    sessions, by_time = task.store("sessions"), task.store("sessions-by-time")
    for entry, _ in by_time.range(end=max(0, before_ms).to_bytes(8)):
        time, key = entry[:8], entry[8:]
        task.emit("ended-sessions", key, b"%d" % int.from_bytes(time))
        sessions.delete(key)
        by_time.delete(time + key)


config = Config(application_id="ended-sessions-report", bootstrap_servers=sys.argv[1])
subtopology = Subtopology(
    remember, sources=["clicks"], stores=["sessions", "sessions-by-time"], sinks=["ended-sessions"]
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [subtopology]).run()
