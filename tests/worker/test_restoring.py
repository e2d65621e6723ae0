"""What the restore thread's orders promise before they are carried out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import reported_lag
from kstreams_assign.worker.restoring import RestoreThread
from tests.restore.logs import LogReader

TASK = TaskId(0, 3)
CHANGELOG = TopicPartition("app-totals-changelog", 3)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory(tmp_path, "app", clock_ms=monotonic_ms)
    yield directory
    directory.close()


def thread_of(directory: StateDirectory, sums: OffsetSums) -> RestoreThread:
    return RestoreThread(
        TopologyShape((SubtopologyShape(("orders",), (Store("totals"),)),)),
        "app",
        Restorer(LogReader({}), now_ms=monotonic_ms),
        lambda task: open_task_stores(directory.task_path(task), ["totals"]),
        lambda partitions: dict.fromkeys(partitions, Position(0)),
        directory,
        sums,
        EventLog("p", None),
    )


def test_a_task_that_stops_running_is_reported_by_its_offsets_before_the_thread_has_turned(
    directory: StateDirectory, tmp_path: Path
) -> None:
    sums = OffsetSums()
    thread = thread_of(directory, sums)
    stores = open_task_stores(tmp_path / "0_3", ["totals"])
    stores.write({}, {CHANGELOG: 7})
    for order in (lambda: thread.tail(TASK, stores), lambda: thread.restore(TASK, stores, [])):
        sums.running(TASK)
        order()
        assert sums.report(owned_only=True) == {TASK: 7}
    stores.close()


def test_a_replica_that_was_just_assigned_is_not_reported_as_caught_up(directory: StateDirectory) -> None:
    thread = thread_of(directory, OffsetSums())
    thread.tail(TASK, None)
    assert reported_lag(TaskState.TAILING, thread.lags().get(TASK)) is None, "its state is not opened yet"
    assert reported_lag(TaskState.RUNNING, thread.lags().get(TASK)) == 0
    assert reported_lag(TaskState.TAILING, 7) == 7
