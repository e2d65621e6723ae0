"""What a task's code writes: times and headers of the record at work, and stores with times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kstreams_assign import Record, Store, SubtopologyShape, Task, TaskId, TopicPartition
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import ConfigError
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.stamped import ValueAndTime, stamped
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task_workspace import TaskWorkspace

SHAPE = SubtopologyShape(("in",), (Store("plain"), Store("stamped", timestamped=True)))
HEADERS: list[tuple[str, bytes | None]] = [("trace", b"7")]
STARTED_MS = 1_000


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[TaskWorkspace]:
    stores = open_task_stores(tmp_path / "0_3", ["plain", "stamped"], timestamped=SHAPE.timestamped)
    stores.write({"stamped": [(b"before", stamped(b"old", 5)), (b"gone", stamped(b"old", 6))]}, {})
    times = {TopicPartition("in", 3): PartitionTime("AgAAAYvP5Wh7")}
    yield TaskWorkspace(TaskId(0, 3), SHAPE, {"out": "out"}, stores, AtWork(STARTED_MS), times)
    stores.close()


@pytest.fixture
def task(workspace: TaskWorkspace) -> Task:
    return workspace.task


def records(*times_ms: int) -> Sequence[Record]:
    return [Record("in", 3, n, at, b"k%d" % n, b"v", HEADERS if n else None) for n, at in enumerate(times_ms)]


def test_a_write_has_the_time_of_the_record_at_work(workspace: TaskWorkspace, task: Task) -> None:
    for record in workspace.batch(records(30, 10)):
        assert record.key is not None
        task.store("plain").put(record.key, b"v")
    task.store("plain").delete(b"later")
    assert workspace.take().times == {"plain": {b"k0": 30, b"k1": 10, b"later": 10}}


def test_a_record_taken_by_its_number_is_at_work_too_and_the_first_one_before_any_is_taken(
    workspace: TaskWorkspace, task: Task
) -> None:
    plain, batch = task.store("plain"), workspace.batch(records(30, 10, 20))
    plain.put(b"a", b"")
    assert (batch[-1].timestamp_ms, len(batch), [r.offset for r in batch[1:]]) == (20, 3, [1, 2])
    plain.put(b"b", b"")
    assert workspace.take().times == {"plain": {b"a": 30, b"b": 20}}


def test_an_output_has_the_time_and_the_headers_of_its_record_unless_it_brings_its_own(
    workspace: TaskWorkspace, task: Task
) -> None:
    task.emit("out", b"k", b"before any record")
    for _ in workspace.batch(records(30, 10)):
        task.emit("out", b"k", b"v")
    task.emit("out", b"k", b"v", headers=(), timestamp_ms=7)
    emitted = [Emitted(*row) for row in workspace.take().emitted]
    stamped = [(record.timestamp_ms, list(record.headers)) for record in emitted]
    assert stamped == [(STARTED_MS, []), (30, []), (10, HEADERS), (7, [])]


def test_a_given_time_counts(workspace: TaskWorkspace, task: Task) -> None:
    plain = task.store("plain")
    plain.put(b"a", b"", 1)
    plain.delete(b"b", 2)
    plain.put_many([(b"c", b""), (b"d", None)], [3, 4])
    plain.put_many([(b"e", b"")])
    assert workspace.take().times == {"plain": {b"a": 1, b"b": 2, b"c": 3, b"d": 4, b"e": STARTED_MS}}
    with pytest.raises(ValueError, match="timestamp_ms = -1"):
        plain.put(b"a", b"", -1)


def test_a_timestamped_store_gives_values_alone_or_with_their_times(task: Task) -> None:
    store = task.timestamped_store("stamped")
    store.put(b"new", b"x", 9)
    store.put_many([(b"gone", None), (b"more", b"y")], [7, 8])
    assert store.get(b"before") == b"old"
    assert store.get_with_timestamp(b"before") == ValueAndTime(b"old", 5)
    assert store.get_with_timestamp(b"gone") is store.get(b"gone") is None
    keys = [b"more", b"gone", b"before", b"new"]
    assert store.get_many(keys) == store.get_many(iter(keys)) == [b"y", None, b"old", b"x"]
    assert store.get_many_with_timestamps(iter(keys)) == store.get_many_with_timestamps(keys)
    assert store.get_many_with_timestamps(keys) == [(b"y", 8), None, (b"old", 5), (b"x", 9)]
    assert list(store.range()) == [(b"before", b"old"), (b"more", b"y"), (b"new", b"x")]
    assert list(store.range_with_timestamps(b"m", reverse=True)) == [(b"new", (b"x", 9)), (b"more", (b"y", 8))]
    assert task.store("stamped").get(b"new") == b"x"


def test_a_store_without_timestamps_says_so(task: Task) -> None:
    with pytest.raises(ConfigError, match="'plain': keeps no timestamps; declare it as"):
        task.timestamped_store("plain")


def test_a_task_knows_the_time_of_its_inputs(task: Task) -> None:
    assert task.partition_time("in") == 1_700_000_000_123
    with pytest.raises(ConfigError, match="'other': task 0_3 reads in"):
        task.partition_time("other")
