"""A state directory on a temporary path, with a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory


@dataclass
class Clock:
    now_ms: int = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the directory, again after a ``close`` too; closes it at the end."""
    found = []

    def open_(kind=StateDirectory):
        found.append(kind(tmp_path, "app", clock_ms=clock))
        return found[-1]

    yield open_
    for directory in found:
        directory.close()


@pytest.fixture
def make_state():
    """Makes a task's folder with something in it, as its stores would."""

    def make(directory, *names) -> None:
        for name in names:
            path = directory.task_path(TaskId.parse(name))
            path.mkdir()
            (path / "data").write_text(name)

    return make
