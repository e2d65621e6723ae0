"""A handler that hangs for longer than ``max_poll_interval_ms``: the member leaves, others go on, and it comes back."""

from __future__ import annotations

import threading
from pathlib import Path

from kstreams_assign.events import LostEvent, StalledEvent
from tests.worker.app import PARTITIONS, App, count_and_hang


def test_a_stuck_member_leaves_writes_nothing_of_what_it_did_and_comes_back(broker: str, tmp_path: Path) -> None:
    app = App(broker, "stuck-in-a-handler", tmp_path)
    stuck, free = threading.Event(), threading.Event()
    slow = count_and_hang(stuck, free)
    settings = {"max_poll_interval_ms": 6_000, "session_timeout_ms": 30_000}
    first, other = app.start(1, slow, **settings), app.start(2, **settings)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.send([b"word-%d" % (n % 97) for n in range(500)])
    assert stuck.wait(60)
    other.until_running(PARTITIONS)
    app.until_counted()
    (warning,) = first.reported(StalledEvent)[0].warnings
    assert "max_poll_interval_ms = 6000: this member leaves the group" in warning
    free.set()
    first.until_event(LostEvent)
    first.until_running(PARTITIONS // 2)
    app.send([b"word-%d" % (n % 97) for n in range(500)])
    app.until_counted()
    app.stop()
