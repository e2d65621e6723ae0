"""A worker's own cleaner, end to end: it deletes dormant state, spares reported state, and delays no other work."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from kstreams_assign import Record, Task
from kstreams_assign.events import RunningEvent
from kstreams_assign.state import trash
from kstreams_assign.state.journal import read_alive_ms, read_journal
from kstreams_assign.state.journal_lines import Line
from kstreams_assign.worker import working
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, count

WORDS = [b"word-%d" % (n % 97) for n in range(500)]
AT_ONCE = {"state_cleanup_delay_ms": 0, "acceptable_recovery_lag": 10_000}
"""No grace, so that the mutex alone protects a dormant folder; and no warm-ups."""


@pytest.fixture
def _quick_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "CLEANER_INTERVAL_MS", 50)


def state(app: App, number: int = 1) -> Path:
    return app.folder / f"state-{number}" / app.name


def folders(app: App) -> set[str]:
    return {path.name for path in state(app).iterdir() if path.name[0].isdigit()}


def in_trash(app: App) -> list[str]:
    return sorted(path.name for path in (state(app) / ".trash").iterdir())


def removals(app: App) -> list[Line]:
    return [line for line in read_journal(state(app)).past if line.did == "delete"]


@pytest.mark.usefixtures("_quick_cleaner")
def test_what_a_worker_gave_away_goes_once_the_group_is_at_rest(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **AT_ONCE)
    first.until_running(PARTITIONS)
    app.until_counted()
    assert len(folders(app)) == PARTITIONS
    second = app.start(2, **AT_ONCE)
    second.until_running(PARTITIONS // 2)
    first.until(lambda _events: len(removals(app)) == PARTITIONS // 2)
    at_work = {event.task for event in second.reported(RunningEvent)}
    assert {line.task for line in removals(app)} == at_work
    assert folders(app).isdisjoint(at_work)
    assert len(folders(app)) == PARTITIONS // 2
    assert in_trash(app) == []
    app.send(WORDS)
    app.until_counted()


class Stuck:
    """A member's function that can be made to hang, so that it does not commit and no join ends."""

    def __init__(self) -> None:
        self.hang, self.hangs, self.go_on = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, task: Task, records: Sequence[Record]) -> None:
        if self.hang.is_set():
            self.hangs.set()
            assert self.go_on.wait(PATIENCE_S)
        count(task, records)


@pytest.mark.usefixtures("_quick_cleaner")
def test_a_dormant_folder_stays_for_as_long_as_a_join_is_held_open(app: App) -> None:
    stuck = Stuck()
    first, second = app.start(1, **AT_ONCE), app.start(2, stuck, **AT_ONCE)
    for worker in (first, second):
        worker.until_running(PARTITIONS // 2)
    dormant = state(app) / "0_9"
    stuck.hang.set()
    try:
        app.send(WORDS)
        assert stuck.hangs.wait(PATIENCE_S)
        first.worker.rejoin("to have a join that the broker does not answer")
        while not stays_through_one_hold(first, app, dormant):
            pass  # that was an earlier rebalance, which ended
    finally:
        stuck.go_on.set()
    first.until(lambda _events: not dormant.exists())
    app.until_counted()


def stays_through_one_hold(worker: Running, app: App, dormant: Path) -> bool:
    """Make a folder while the mutex is held; check that the cleaner spares it. False if the hold ended meanwhile."""
    mutex = worker.worker._local.mutex
    worker.until(lambda _events: bool(mutex.state.reporting))
    held = mutex.state.held
    dormant.mkdir(exist_ok=True)
    for _ in range(2):  # a run stamps, then asks for the mutex: at the second stamp one run is complete
        until_stamped(worker, app)
    there = dormant.is_dir()
    if mutex.state.held != held:  # who, and since when
        return False
    assert there
    return True


def until_stamped(worker: Running, app: App) -> None:
    """Wait for the next run of the cleaner."""
    before = read_alive_ms(state(app))
    worker.until(lambda _events: read_alive_ms(state(app)) != before)


class SlowDisk:
    """A disk on which a deletion takes until the test ends it."""

    def __init__(self) -> None:
        self.deletes, self.go_on = threading.Event(), threading.Event()
        self._delete = trash._delete

    def delete(self, folder: Path) -> bool:
        self.deletes.set()
        assert self.go_on.wait(2 * PATIENCE_S)
        return self._delete(folder)


def damaged(app: App) -> None:
    """A worker counts the words sent and ends; then a table of its first task is damaged."""
    app.send(WORDS)
    app.start(1).until_running(PARTITIONS)
    app.until_counted()
    app.workers.pop().stop()
    for table in (state(app) / "0_0").glob("*.sst"):
        content = table.read_bytes()
        table.write_bytes(bytes(byte ^ 255 for byte in content[:100]) + content[100:])


@pytest.mark.usefixtures("_quick_cleaner")
def test_restores_and_upkeep_go_on_while_a_damaged_store_is_deleted(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged(app)
    disk = SlowDisk()
    monkeypatch.setattr(trash, "_delete", disk.delete)
    worker = app.start(1)
    try:
        worker.until(lambda _events: disk.deletes.is_set())
        worker.until_running(PARTITIONS)
        until_stamped(worker, app)
        app.send(WORDS)
        app.until_counted()
        assert in_trash(app) == ["0_0.0"]
    finally:
        disk.go_on.set()
    worker.until(lambda _events: not in_trash(app))


def test_a_worker_that_ends_leaves_no_trash_and_leaves_the_group_before_that_is_deleted(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "CLEANER_INTERVAL_MS", 3_600_000)
    damaged(app)
    disk = SlowDisk()
    monkeypatch.setattr(trash, "_delete", disk.delete)
    worker = app.start(1, session_timeout_ms=600_000)
    try:
        worker.until_running(PARTITIONS)
        assert in_trash(app) == ["0_0.0"]
        worker.worker.close()
        app.start(2).until_running(PARTITIONS)
        assert disk.deletes.is_set()
        assert in_trash(app) == ["0_0.0"]
    finally:
        disk.go_on.set()
    worker.join()
    assert in_trash(app) == []
    assert {line.task for line in removals(app)} == {"0_0"}
