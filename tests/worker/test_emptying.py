"""The thread that empties the trash: callers do not wait, nothing is left over, a disk error ends no thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.trash import Trash
from kstreams_assign.worker.emptying import Emptying

PATIENCE_S = 60
FIRST, SECOND = TaskId(0, 1), TaskId(0, 2)


class Held(Trash):
    """The trash of a directory on a slow disk: an emptying that has looked what is there ends when the test says so."""

    def __init__(self, directory: StateDirectory) -> None:
        super().__init__(directory.trash.path, directory._journal)
        self.looked, self.go_on = threading.Event(), threading.Event()
        self.under_way, self.emptied = 0, 0

    def empty(self) -> None:
        self.under_way += 1
        assert self.under_way == 1
        self.looked.set()
        super().empty()
        assert self.go_on.wait(PATIENCE_S)
        self.under_way -= 1
        self.emptied += 1


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    with StateDirectory(tmp_path, "app", clock_ms=lambda: 0) as directory:
        yield directory


@pytest.fixture
def trash(directory: StateDirectory) -> Held:
    return Held(directory)


def throw_away(directory: StateDirectory, task: TaskId) -> None:
    directory.task_path(task).mkdir()
    (directory.task_path(task) / "data").touch()
    assert directory.retire(task, 0)


def left(trash: Trash) -> list[str]:
    return sorted(path.name for path in trash.path.iterdir())


def call(work: Callable[[], None]) -> None:
    work()


def test_a_caller_does_not_wait_and_later_trash_is_deleted_too(directory: StateDirectory, trash: Held) -> None:
    emptying = Emptying(trash, call)
    throw_away(directory, FIRST)
    emptying.ask()
    assert trash.looked.wait(PATIENCE_S)
    throw_away(directory, SECOND)
    for _ in range(5):
        emptying.ask()  # comes back, though the first is under way
    trash.go_on.set()
    emptying.close()
    assert left(trash) == []
    assert trash.emptied == 2, "the first, and one for all that came meanwhile"


def test_closing_waits_for_what_is_under_way_as_that_writes_into_the_journal(
    directory: StateDirectory, trash: Held
) -> None:
    emptying = Emptying(trash, call)
    throw_away(directory, FIRST)
    emptying.ask()
    assert trash.looked.wait(PATIENCE_S)
    threading.Timer(0.3, trash.go_on.set).start()
    emptying.close()
    assert trash.emptied == 1


class Broken(Trash):
    """The trash of a directory on a disk that fails."""

    error: Exception | None = OSError("the disk is gone")

    def empty(self) -> None:
        if self.error is not None:
            raise self.error
        super().empty()


def test_a_disk_that_fails_is_named_once_and_tried_again(
    directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    trash = Broken(directory.trash.path, directory._journal)
    throw_away(directory, FIRST)
    emptying = Emptying(trash, call)
    for error in (trash.error, trash.error, None):
        trash.error = error
        emptying.ask()
        emptying._thread.submit(lambda: None).result()  # runs after the emptying
    emptying.close()
    assert left(trash) == []
    assert [record.message for record in caplog.records] == [f"the trash {trash.path} is not emptied: the disk is gone"]


def test_any_other_error_goes_to_the_guard_of_the_threads(directory: StateDirectory) -> None:
    trash = Broken(directory.trash.path, directory._journal)
    trash.error = ValueError("a bug")
    errors = []

    def guarded(work: Callable[[], None]) -> None:
        with pytest.raises(ValueError, match="a bug") as caught:
            work()
        errors.append(caught.value)

    emptying = Emptying(trash, guarded)
    emptying.ask()
    emptying.close()
    assert errors == [trash.error]
