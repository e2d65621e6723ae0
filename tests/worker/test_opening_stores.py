"""Where a task's stores are opened, and what is reported of them once they are closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import RocksTaskStores, read_offsets
from kstreams_assign.errors import StoreDamaged
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.opening_stores import open_stores
from kstreams_assign.worker.restoring import RestoreThread
from kstreams_assign.worker.runtime import Runtime
from tests.restore.logs import LogReader

TASK = TaskId(0, 3)
KEPT, QUICK = TopicPartition("app-kept-changelog", 3), TopicPartition("app-quick-changelog", 3)


def shape_of(*stores: Store) -> TopologyShape:
    return TopologyShape((SubtopologyShape(("in",), stores),))


ON_DISK = shape_of(Store("kept"), Store("quick", timestamped=True))
MIXED = shape_of(Store("kept"), Store("quick", in_memory=True))
IN_MEMORY = shape_of(Store("kept", in_memory=True), Store("quick", in_memory=True))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory(tmp_path, "app", clock_ms=monotonic_ms)
    directory.lock_task(TASK)
    yield directory
    directory.close()


def opened(directory: StateDirectory, shape: TopologyShape) -> TaskStores:
    return open_stores(directory, shape, "app", TASK)


def fill(stores: TaskStores) -> None:
    stores.write({"kept": [(b"k", b"1")], "quick": [(b"k", b"2")]}, {KEPT: 5, QUICK: 7})


def test_a_store_on_disk_is_there_again_and_one_in_memory_is_empty(directory: StateDirectory) -> None:
    for _ in range(2):
        stores = opened(directory, MIXED)
        assert (stores.get("quick", b"k"), stores.offsets().get(QUICK)) == (None, None)
        fill(stores)
        assert dict(stores.offsets()) == {KEPT: 5, QUICK: 7}
        stores.close()
    assert dict(read_offsets(directory.task_path(TASK))) == {KEPT: 5}


def test_a_task_without_stores_in_memory_has_rocksdb_alone(directory: StateDirectory) -> None:
    stores = opened(directory, ON_DISK)
    assert isinstance(stores, RocksTaskStores)
    stores.close()


def test_a_task_with_all_stores_in_memory_has_no_folder_and_one_of_earlier_is_removed(
    directory: StateDirectory,
) -> None:
    stores = opened(directory, IN_MEMORY)
    assert isinstance(stores, MemoryStores)
    assert not directory.has_folder(TASK)
    before = opened(directory, ON_DISK)
    fill(before)
    before.close()
    assert directory.has_folder(TASK)
    assert dict(opened(directory, IN_MEMORY).offsets()) == {}
    assert not directory.has_folder(TASK)
    again = opened(directory, ON_DISK)
    assert (dict(again.offsets()), again.get("kept", b"k")) == ({}, None)
    again.close()


def test_a_store_that_moves_to_memory_and_back_starts_empty_and_the_other_stays(directory: StateDirectory) -> None:
    for shape in (ON_DISK, MIXED, ON_DISK):
        stores = opened(directory, shape)
        assert (stores.get("quick", b"k"), stores.offsets().get(QUICK)) == (None, None)
        assert stores.get("kept", b"k") == (None if shape is ON_DISK and not stores.offsets() else b"1")
        fill(stores)
        stores.close()


@pytest.mark.parametrize("in_memory", [(), ("kept",), ("quick",), ("kept", "quick")], ids=str)
def test_a_table_of_its_source_topic_may_go_back_with_it_wherever_it_is_kept(
    directory: StateDirectory, in_memory: tuple[str, ...]
) -> None:
    table, other = TopicPartition("in", 3), TopicPartition("app-quick-changelog", 3)
    shape = shape_of(
        Store("kept", source="in", in_memory="kept" in in_memory), Store("quick", in_memory="quick" in in_memory)
    )
    with closing(opened(directory, shape)) as stores:
        stores.write({"kept": [(b"k", b"new")]}, {table: 5, other: 5})
        stores.write({"kept": [(b"k", b"old")]}, {table: 3})
        assert (stores.get("kept", b"k"), dict(stores.offsets())) == (b"old", {table: 3, other: 5})
        with pytest.raises(StoreDamaged):
            stores.write({}, {other: 4})


def test_a_damaged_database_beside_a_store_in_memory_is_damage(directory: StateDirectory) -> None:
    stores = opened(directory, MIXED)
    fill(stores)
    stores.close()
    (directory.task_path(TASK) / "CURRENT").write_bytes(b"nothing of the kind")
    with pytest.raises(StoreDamaged):
        opened(directory, MIXED)
    directory.discard(TASK)
    opened(directory, MIXED).close()


@pytest.mark.parametrize(
    ("shape", "while_open", "once_closed"),
    [(ON_DISK, {TASK: 12}, {TASK: 12}), (MIXED, {TASK: 12}, {TASK: 5}), (IN_MEMORY, {TASK: 12}, {})],
)
def test_a_closed_task_is_not_reported_with_what_was_in_memory(
    directory: StateDirectory, shape: TopologyShape, while_open: dict[TaskId, int], once_closed: dict[TaskId, int]
) -> None:
    sums = OffsetSums()
    thread = RestoreThread(
        shape,
        "app",
        Restorer(LogReader({}), now_ms=monotonic_ms),
        lambda task: open_stores(directory, shape, "app", task),
        lambda partitions: dict.fromkeys(partitions, Position(0)),
        directory,
        sums,
        EventLog("p", None),
    )
    closed = []
    thread.receiver = type("Closed", (), {"closed": lambda _, task, number: closed.append((task, number))})()
    stores = opened(directory, shape)
    fill(stores)
    thread.tail(TASK, stores)
    assert sums.report(owned_only=False) == while_open
    thread.close(TASK, None, 1)
    thread.stop()
    thread.run()
    assert (sums.report(owned_only=False), closed) == (once_closed, [(TASK, 1)])
    again = opened(directory, shape)
    assert sum(again.offsets().values()) == once_closed.get(TASK, 0)
    again.close()


def test_the_changelogs_whose_offsets_outlast_a_task_are_those_of_stores_on_disk() -> None:
    shapes = (ON_DISK, MIXED, IN_MEMORY)
    assert [set(shape.kept_changelogs("app", TASK)) for shape in shapes] == [{KEPT, QUICK}, {KEPT}, set()]
    unlogged = shape_of(Store("kept", logged=False), Store("quick", logged=False, in_memory=True))
    assert unlogged.kept_changelogs("app", TASK) == set()


@pytest.mark.parametrize(
    ("stores", "at_start"),
    [(ON_DISK, {TASK: 12}), (MIXED, {TASK: 5}), (IN_MEMORY, {})],
)
def test_a_process_that_starts_reports_what_is_on_disk_of_stores_that_are_still_there(
    tmp_path: Path, stores: TopologyShape, at_start: dict[TaskId, int]
) -> None:
    """Its folders are from a time when both stores were on disk."""
    with closing(StateDirectory(tmp_path, "app", clock_ms=monotonic_ms)) as directory:
        directory.lock_task(TASK)
        with closing(opened(directory, ON_DISK)) as old:
            fill(old)
    config = Config(application_id="app", bootstrap_servers="localhost:1", state_dir=str(tmp_path))
    flows = [Flow.of(["in"], stores.subtopologies[0].stores)]
    runtime = Runtime(config, flows, Functions([], config, []), None)
    assert runtime._local.sums.report(owned_only=False) == at_start
    runtime.close()
    runtime.run()
