"""Follow each user's clicks, and report a session once it has ended: ``python click_sessions.py localhost:9092``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from kstreams_assign import Batch, Config, Subtopology, Task, Timer, Worker

GAP_MS = 30 * 60 * 1000


@dataclass
class Session:
    start_ms: int
    end_ms: int
    clicks: int = 0


def follow(task: Task, clicks: Batch) -> None:
    sessions = task.store("sessions", key=str, value=Session)
    late = task.sink("late-clicks", key=str, value=bytes)
    for record, (user, click) in zip(clicks, clicks.pairs(key=str, value=bytes), strict=True):
        if user is None:
            continue
        time_ms = record.timestamp_ms
        session = sessions.get(user) or Session(time_ms, time_ms)
        end_ms = max(session.end_ms, time_ms)
        if time_ms + GAP_MS <= session.start_ms or end_ms + GAP_MS <= (task.current_stream_time_ms() or 0):
            late.emit(user, click)  # its session has ended
            continue
        sessions.put(user, Session(min(session.start_ms, time_ms), end_ms, session.clicks + 1))
        task.timers.set(user.encode(), end_ms + GAP_MS)  # replaces the timer of the user's last click


def close(task: Task, due: Sequence[Timer]) -> None:
    sessions = task.store("sessions", key=str, value=Session)
    ended = task.sink("click-sessions", key=str, value=Session)
    for timer in due:
        user = timer.key.decode()
        session = sessions.get(user)
        if session is not None:
            ended.emit(user, session)
            sessions.delete(user)


TOPOLOGY = [
    Subtopology(
        follow,
        sources=["page-clicks"],
        stores=["sessions"],
        sinks=["click-sessions", "late-clicks"],
        timers=close,
    )
]

if __name__ == "__main__":
    config = Config(
        application_id="click-sessions", bootstrap_servers=sys.argv[1], processing_guarantee="exactly_once_v2"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # Ctrl-C or SIGTERM: commits, closes the tasks and leaves the group
        Worker(config, TOPOLOGY).run()
