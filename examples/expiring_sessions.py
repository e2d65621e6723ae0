"""Count a session's clicks; forget it half an hour after the last: ``python expiring_sessions.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from kstreams_assign import Config, Record, Store, Subtopology, Task, Worker

KEEP_MS = 30 * 60 * 1000


def count_clicks(task: Task, records: Sequence[Record]) -> None:
    sessions = task.timestamped_store("sessions")
    for record in records:
        if record.key is not None:
            clicks, newest_ms = 1, record.timestamp_ms
            if (known := sessions.get_with_timestamp(record.key)) is not None:
                clicks += int(known.value)
                newest_ms = max(newest_ms, known.timestamp_ms)  # a late record does not make the session older
            sessions.put(record.key, b"%d" % clicks, newest_ms)
            task.emit("session-clicks", record.key, b"%d" % clicks)


config = Config(application_id="expiring-sessions", bootstrap_servers=sys.argv[1])
subtopology = Subtopology(
    count_clicks, sources=["clicks"], stores=[Store("sessions", ttl_ms=KEEP_MS)], sinks=["session-clicks"]
)
signal.signal(signal.SIGTERM, signal.default_int_handler)
with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
    Worker(config, [subtopology]).run()
