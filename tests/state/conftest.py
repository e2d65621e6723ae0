"""A state directory on a temporary path, with a clock that only the test moves."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory


@dataclass
class Clock:
    now_ms: int = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    """No test cuts the power, and a disk that others use too takes its time to sync."""
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def wall():
    """The time of day; the files of a test are older."""
    return Clock(1_900_000_000_000)


@pytest.fixture
def opened(tmp_path, clock, wall):
    """Opens the directory, again after a ``close`` too; closes it at the end."""
    directories = []

    def open_(kind=StateDirectory, **named):
        directories.append(kind(tmp_path, "app", clock_ms=clock, wall_ms=wall, **named))
        return directories[-1]

    yield open_
    for directory in directories:
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
