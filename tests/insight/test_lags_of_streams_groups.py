"""How far standbys of a streams group are: members report it to brokers of Kafka 4.4, and ``inspect`` shows it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.insight.run import Cli
from tests.worker.app import PARTITIONS, PATIENCE_S, App
from tests.worker.streams_settings import set_group
from tests.worker.test_streams_group_on_a_broker import STREAMS, WORDS

TASKS = {f"0_{number}" for number in range(PARTITIONS)}


def test_inspect_shows_the_lags_that_members_report(newer_broker: str, run: Cli, tmp_path: Path) -> None:
    app = App(newer_broker, "reported-lags", tmp_path)
    set_group(newer_broker, app.name, num_standby_replicas=1, heartbeat_interval_ms=500)
    try:
        app.send(WORDS)
        for number in (1, 2):
            app.start(number, **STREAMS)
        app.until_counted()
        deadline = time.monotonic() + PATIENCE_S
        lags: dict[str, int] = {}
        while lags.keys() != TASKS:
            assert time.monotonic() < deadline, lags
            threading.Event().wait(0.2)
            shown = run("inspect", app.name, "-b", newer_broker, "--json").facts
            lags = {
                task: lag
                for process in shown["processes"]
                for task, lag in process["lags"].items()
                if lag is not None and task in process["standby"]
            }
        assert set(lags.values()) <= set(range(len(WORDS) + 1))
        assert "lags" not in shown["unknown"]
    finally:
        app.stop()
