"""Where a task's stores are opened, and what is reported of them once they are closed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import RocksTaskStores, read_offsets
from kstreams_assign.engine import effects as do
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
from kstreams_assign.worker.stores_in_hand import StoresInHand
from tests.restore.logs import Log, LogReader, records

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


def test_a_store_without_a_changelog_stays_as_long_as_the_folder_and_in_memory_as_long_as_the_task(
    directory: StateDirectory,
) -> None:
    shape = shape_of(Store("kept", logged=False), Store("quick", logged=False, in_memory=True))
    stores = opened(directory, shape)
    stores.write({"kept": [(b"k", b"1")], "quick": [(b"k", b"2")]}, {})
    stores.close()
    again = opened(directory, shape)
    assert (again.get("kept", b"k"), again.get("quick", b"k")) == (b"1", None)
    again.close()
    directory.discard(TASK)
    empty = opened(directory, shape)
    assert empty.get("kept", b"k") is None
    empty.close()


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


def thread_of(directory: StateDirectory, shape: TopologyShape, sums: OffsetSums, reader: LogReader) -> RestoreThread:
    return RestoreThread(
        shape,
        "app",
        Restorer(reader, now_ms=monotonic_ms),
        lambda task: open_stores(directory, shape, "app", task),
        lambda partitions: dict.fromkeys(partitions, Position(0)),
        directory,
        sums,
        EventLog("p", None),
    )


@pytest.mark.parametrize(
    ("shape", "while_open", "once_closed"),
    [(ON_DISK, {TASK: 12}, {TASK: 12}), (MIXED, {TASK: 12}, {TASK: 5}), (IN_MEMORY, {TASK: 12}, {})],
)
def test_a_closed_task_is_not_reported_with_what_was_in_memory(
    directory: StateDirectory, shape: TopologyShape, while_open: dict[TaskId, int], once_closed: dict[TaskId, int]
) -> None:
    sums = OffsetSums()
    thread = thread_of(directory, shape, sums, LogReader({}))
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


QUICK_DROPPED = [shape_of(Store("kept")), shape_of(Store("kept"), Store("quick", timestamped=True, logged=False))]
IDS = ["dropped", "no longer logged"]


class Loop:
    """The processing loop's side of the restore thread. ``handed``: stores and how many offsets were read."""

    def __init__(self) -> None:
        self.handed: queue.SimpleQueue[tuple[TaskStores | None, int]] = queue.SimpleQueue()
        self.closed_tasks: queue.SimpleQueue[TaskId] = queue.SimpleQueue()

    def ready(self, _task: TaskId, stores: TaskStores | None, _positions: object, restored: int) -> None:
        self.handed.put((stores, restored))

    def closed(self, task: TaskId, _number: int) -> None:
        self.closed_tasks.put(task)


@contextmanager
def at_work(thread: RestoreThread) -> Iterator[Loop]:
    thread.receiver = loop = Loop()
    running = threading.Thread(target=thread.run)
    running.start()
    try:
        yield loop
    finally:
        thread.stop()
        running.join()


@pytest.mark.parametrize("in_hand", [True, False], ids=["comes with its stores", "is opened"])
@pytest.mark.parametrize("shape", QUICK_DROPPED, ids=IDS)
def test_the_offset_of_a_store_that_is_no_longer_declared_is_neither_reported_nor_counted(
    directory: StateDirectory, shape: TopologyShape, in_hand: bool
) -> None:
    """It stays on disk: the leader would take the sum for more than the changelogs hold, or for a smaller lag."""
    with closing(opened(directory, ON_DISK)) as before:
        fill(before)
    sums, pause = OffsetSums(), threading.Event()
    log = Log(entries=records(9))
    thread = thread_of(directory, shape, sums, LogReader({KEPT: log}))
    stores = opened(directory, shape) if in_hand else None
    thread.tail(TASK, stores)
    assert sums.report(owned_only=True) == ({TASK: 5} if in_hand else {})
    with at_work(thread) as loop:
        while not (thread.progress().get(TASK) and thread.progress()[TASK].done):
            pause.wait(0.01)
        assert (sums.report(owned_only=True), thread.updated.view()) == ({TASK: 9}, {TASK: 4})
        log.append(*records(3, 9))
        thread.restore(TASK, None, [TopicPartition("in", 3)])
        stores, restored = loop.handed.get(timeout=60)
        assert (restored, sum(thread.updated.view().values()) + thread.restored.view()[TASK]) == (3, 7)
        thread.tail(TASK, stores)
        assert sums.report(owned_only=True) == {TASK: 12}
        thread.close(TASK, None, 1)
        assert loop.closed_tasks.get(timeout=60) == TASK
    assert sums.report(owned_only=False) == {TASK: 12}
    dropped = "quick" not in {store.name for store in shape.subtopologies[0].stores}
    assert dict(read_offsets(directory.task_path(TASK))) == {KEPT: 12, **({QUICK: 7} if dropped else {})}


@pytest.mark.parametrize("shape", QUICK_DROPPED, ids=IDS)
def test_a_task_that_is_restored_counts_what_was_read_and_nothing_of_a_store_that_is_no_longer_declared(
    directory: StateDirectory, shape: TopologyShape
) -> None:
    with closing(opened(directory, ON_DISK)) as before:
        fill(before)
    thread = thread_of(directory, shape, OffsetSums(), LogReader({KEPT: Log(entries=records(9))}))
    with at_work(thread) as loop:
        thread.restore(TASK, None, [TopicPartition("in", 3)])
        stores, restored = loop.handed.get(timeout=60)
        assert stores is not None
        stores.close()
    assert (restored, thread.restored.view()) == (4, {TASK: 4})


@pytest.mark.parametrize("shape", QUICK_DROPPED, ids=IDS)
def test_a_task_whose_commit_failed_is_reported_without_a_store_that_is_no_longer_declared(
    directory: StateDirectory, shape: TopologyShape
) -> None:
    with closing(opened(directory, ON_DISK)) as before:
        fill(before)
    sums = OffsetSums()
    flows = [Flow.of(["in"], shape.subtopologies[0].stores)]
    in_hand = StoresInHand(directory, sums, flows, 0, lambda task: shape.changelogs("app", task).values())
    with closing(opened(directory, shape)) as stores:
        in_hand.take(TASK, stores)
        in_hand.carry_out(do.ReportStore(TASK))
    assert sums.report(owned_only=True) == {TASK: 5}


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
