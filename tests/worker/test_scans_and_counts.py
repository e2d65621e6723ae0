"""Prefix scans and counts of a task's stores, against a dict that is searched from end to end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Store, SubtopologyShape, Task, TaskId
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task_workspace import TaskWorkspace
from tests.samples import examples

SHAPE = SubtopologyShape(("in",), (Store("plain"), Store("stamped", timestamped=True)))
TIME_MS = 1_000

KEYS = st.lists(st.sampled_from([b"a", b"b", b"\x00", b"\xfe", b"\xff"]), max_size=3).map(b"".join)
WRITES = st.lists(st.tuples(KEYS, st.none() | st.just(b"") | KEYS), max_size=10)


@contextmanager
def on_disk() -> Iterator[TaskStores]:
    with tempfile.TemporaryDirectory() as folder:
        stores = open_task_stores(Path(folder) / "0_3", ["plain", "stamped"], timestamped=SHAPE.timestamped)
        yield stores
        stores.close()


@contextmanager
def in_memory() -> Iterator[TaskStores]:
    yield MemoryStores(["plain", "stamped"])


KINDS = [on_disk, in_memory]


def workspace_of(stores: TaskStores) -> TaskWorkspace:
    return TaskWorkspace(TaskId(0, 3), SHAPE, {}, stores, AtWork(TIME_MS), {})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(WRITES, st.sampled_from(["commit", "leave", "undo", "wait"])), max_size=4), KEYS)
def test_a_prefix_scan_finds_just_the_keys_that_begin_with_it(
    kind: Callable[[], Iterator[TaskStores]], steps: list[tuple[list[tuple[bytes, bytes | None]], str]], prefix: bytes
) -> None:
    """Entries are in the store, on their way to it, and in the buffer; some were undone."""
    with kind() as stores:  # type: ignore[attr-defined]
        workspace, expected = workspace_of(stores), dict[bytes, bytes]()
        plain, stamped = workspace.task.store("plain"), workspace.task.timestamped_store("stamped")
        for writes, then in steps:
            workspace.save()
            for key, value in writes:
                plain.put(key, value)
                stamped.put(key, value)
                if then != "undo":
                    expected.pop(key, None)
                    expected |= {} if value is None else {key: value}
            if then == "undo":
                workspace.undo()
            elif then != "wait":
                taken = workspace.take().writes
                stores.write({name: entries.items() for name, entries in taken.items()}, {})
                if then == "commit":
                    workspace.landed()
        ours = sorted((key, value) for key, value in expected.items() if key.startswith(prefix))
        for reverse in (False, True):
            there = ours[::-1] if reverse else ours
            assert list(plain.prefix_scan(prefix, reverse=reverse)) == there
            assert list(stamped.prefix_scan(prefix, reverse=reverse)) == there
            timed = list(stamped.prefix_scan_with_timestamps(prefix, reverse=reverse))
            assert timed == [(key, (value, TIME_MS)) for key, value in there]
        for store in (plain, stamped):
            assert store.approximate_count() >= 0


def store_of(kind: Callable[[], Iterator[TaskStores]]) -> Iterator[tuple[TaskWorkspace, TaskStores, Task]]:
    with kind() as stores:  # type: ignore[attr-defined]
        workspace = workspace_of(stores)
        yield workspace, stores, workspace.task


@pytest.mark.parametrize("kind", KINDS)
def test_a_count_includes_what_waits_for_the_commit_and_is_never_negative(
    kind: Callable[[], Iterator[TaskStores]],
) -> None:
    for workspace, stores, task in store_of(kind):
        plain = task.store("plain")
        assert plain.approximate_count() == 0
        plain.put_many([(b"%d" % n, b"v") for n in range(10)])
        assert plain.approximate_count() == 10
        writes = workspace.take().writes
        assert plain.approximate_count() == 10, "a commit has them on their way"
        stores.write({name: entries.items() for name, entries in writes.items()}, {})
        workspace.landed()
        assert plain.approximate_count() == 10
        for n in range(4):
            plain.delete(b"%d" % n)
        assert plain.approximate_count() == 6
        for n in range(100, 200):
            plain.delete(b"%d" % n)
        assert plain.approximate_count() == 0


def test_a_prefix_that_is_no_bytes_is_refused_and_named() -> None:
    for _workspace, _stores, task in store_of(in_memory):
        for store in (task.store("plain"), task.store("stamped")):
            with pytest.raises(TypeError, match="prefix"):
                store.prefix_scan("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="prefix"):
            task.timestamped_store("stamped").prefix_scan_with_timestamps(None)  # type: ignore[arg-type]
