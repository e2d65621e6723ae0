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

    processes = {number: start(number) for number in (1, 2)}
    try:
        for process in processes.values():
            process.until_running(2)
        keys = remind_all(app, Random(guarantee))
        for round_number, share in enumerate((0.1, 0.3, 0.5, 0.7)):
            until(lambda share=share: len(fired()) >= share * TIMERS)  # type: ignore[misc]
            number = 1 + round_number % 2
            if round_number < 2:
                processes[number].kill()
                processes[number] = start(number)
            elif round_number == 2:
                assert processes[number].close() == 0  # its tasks are handed over
                processes[number] = start(number)
            else:
                processes[3] = start(3)
                processes[3].until_running(1)
                processes[3].kill()
                del processes[3]
        until(lambda: fired().keys() >= keys)
    finally:
        statuses = [process.close() for process in processes.values()]
        app.stop()
    assert statuses == [0, 0]
    outputs = committed_outputs(app)
    assert {key for key, _ in outputs} == keys
    if guarantee == "exactly_once_v2":
        assert outputs == Counter({(key, b"1"): 1 for key in keys})
