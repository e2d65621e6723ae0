"""What the tasks' state takes on disk, while the state directory is deleted or cannot be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kstreams_assign import TaskId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.worker.state_sizes import StateSizes, folder_bytes, measure_disk

TASK = TaskId(0, 1)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    with StateDirectory(tmp_path, "app", clock_ms=lambda: 0) as directory:
        store = directory.task_path(TASK) / "store"
        store.mkdir(parents=True)
        (store / "file").write_bytes(bytes(5_000))
        yield directory


def refuse(_directory: object) -> list[TaskId]:
    raise OSError(5, "Input/output error")


def test_sizes_stay_until_a_deleted_directory_is_created_again(directory: StateDirectory) -> None:
    sizes = StateSizes(directory)
    sizes.turn()
    assert sizes.bytes_by_task == {TASK: 5_000}
    shutil.rmtree(directory.path)
    turn(sizes)
    assert sizes.bytes_by_task == {TASK: 5_000}
    assert directory.secure()
    turn(sizes)
    assert sizes.bytes_by_task == {}


def test_sizes_stay_while_the_disk_fails(directory: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = StateSizes(directory)
    sizes.turn()
    monkeypatch.setattr(StateDirectory, "tasks_on_disk", refuse)
    turn(sizes)
    assert sizes.bytes_by_task == {TASK: 5_000}


def test_a_file_that_is_deleted_meanwhile_leaves_the_others_counted(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = directory.task_path(TASK) / "store"
    for number in range(5):
        (store / f"{number}.sst").write_bytes(bytes(100))
    listed = os.scandir

    @contextmanager
    def list_and_delete(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        """List the folder as RocksDB deletes the first file of the list."""
        with listed(folder) as entries:
            found = list(entries)
            if folder == store:
                Path(found[0].path).unlink()
            yield iter(found)

    with monkeypatch.context() as deleting:
        deleting.setattr(os, "scandir", list_and_delete)
        counted = folder_bytes(directory.task_path(TASK))
    assert counted == sum(file.stat().st_size for file in store.iterdir()) > 0


def turn(sizes: StateSizes) -> None:
    """Let it measure although it has just done so."""
    sizes._next_s = 0.0
    sizes.turn()


def test_there_is_no_measured_disk_while_the_directory_is_deleted_or_cannot_be_read(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measure_disk(directory) is not None
    with monkeypatch.context() as failing:
        failing.setattr(StateDirectory, "tasks_on_disk", refuse)
        assert measure_disk(directory) is None
    shutil.rmtree(directory.path)
    assert measure_disk(directory) is None
