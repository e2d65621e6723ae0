"""A worker that drains leaves nothing cold behind, on a real broker."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.events import AssignedEvent, ClosedEvent, DrainRefusedEvent, RunningEvent
from tests.worker.app import PARTITIONS, App

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SETTINGS = {"acceptable_recovery_lag": 0, "max_warmup_replicas": 1, "early_probing_floor_ms": 1_000}


def test_its_tasks_are_warmed_up_elsewhere_before_it_ends(broker: str, tmp_path: Path) -> None:
    app = App(broker, "draining", tmp_path)
    try:
        app.send(WORDS)
        first = app.start(1, **SETTINGS)
        first.until_running(PARTITIONS)
        app.until_counted()
        second = app.start(2, **SETTINGS)
        second.until(lambda events: any(isinstance(e, AssignedEvent) for e in events))
        first.worker.drain()
        first.until_event(ClosedEvent)
        second.until_running(PARTITIONS)
        assert not first.reported(DrainRefusedEvent)
        assert {e.restored for e in second.reported(RunningEvent)} == {0}, "every task was warm when it was taken over"
        assert len(second.reported(RunningEvent)) == PARTITIONS
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def test_the_last_worker_reports_that_it_is_alone_and_leaves(broker: str, tmp_path: Path) -> None:
    app = App(broker, "draining-alone", tmp_path)
    try:
        app.send(WORDS)
        alone = app.start(1, **SETTINGS)
        alone.until_running(PARTITIONS)
        app.until_counted()
        alone.worker.drain()
        alone.until_event(ClosedEvent)
        (refused,) = alone.reported(DrainRefusedEvent)
        assert "no other process can take the tasks over" in refused.warnings[0]
    finally:
        app.stop()
