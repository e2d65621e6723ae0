"""Keyed timers while workers are killed and tasks move: each has one committed effect, or at least one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.worker.app import App, until
from tests.worker.outputs import committed_outputs
from tests.worker.process import Process

TIMERS = 10_000
LATEST_MS = 30_000


def remind_all(app: App, random: Random) -> set[bytes]:
    """Send a record for each timer, some of them twice, so that the second replaces the first; return the keys."""
    keys = [b"timer-%d" % number for number in range(TIMERS)]
    for key in keys:
        if random.random() < 0.1:
            app.send_unflushed(key, b"%d" % (10 * LATEST_MS))
        app.send_unflushed(key, b"%d" % random.randrange(LATEST_MS))
    app.send([])
    return set(keys)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_no_timer_is_lost_while_workers_are_killed_and_tasks_move(broker: str, tmp_path: Path, guarantee: str) -> None:
    """Exactly once, each has one effect. At least once, a worker that is killed repeats what it has not committed."""
    app = App(broker, f"timers-{guarantee.replace('_', '-')}", tmp_path)
    settings: dict[str, Any] = {
        "processing_guarantee": guarantee,
        "session_timeout_ms": 6_000,
        "commit_interval_ms": 500,
        "max_poll_records": 500,
        "buffered_records_max": 5_000,
        "acceptable_recovery_lag": 1_000_000,
    }

    def start(number: int) -> Process:
        return Process(app, number, module="tests.worker.reminding", **settings)

    def fired() -> Counter[bytes]:
        return Counter(key or b"" for key, _ in committed_outputs(app).elements())

    def until_fired(share: float) -> None:
        until(lambda: len(fired()) >= share * TIMERS)

    processes = {number: start(number) for number in (1, 2)}
    try:
        for process in processes.values():
            process.until_running(2)
        keys = remind_all(app, Random(guarantee))
        until_fired(0.1)
        processes[1].kill()
        processes[1] = start(1)
        until_fired(0.3)
        processes[2].stand_still()
        until_fired(0.6)  # without it: its tasks have moved, and it still believes that it has them
        processes[2].go_on()
        until_fired(0.7)
        assert processes[1].close() == 0  # its tasks are handed over
        processes[1] = start(1)
        processes[3] = start(3)
        processes[3].until(lambda events: any(event["event"] == "running" for event in events))
        processes.pop(3).kill()
        until(lambda: fired().keys() >= keys)
    finally:
        statuses = [process.close() for process in processes.values()]
        app.stop()
    assert statuses == [0, 0]
    outputs = committed_outputs(app)
    assert {key for key, _ in outputs} == keys
    if guarantee == "exactly_once_v2":
        assert outputs == Counter({(key, b"1"): 1 for key in keys})
