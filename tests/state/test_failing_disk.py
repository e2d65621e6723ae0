"""A disk that fails for days fills no log: each failure is logged once, until it changes or has been mended."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex

DELAY_MS = 1_000


@pytest.fixture
def directory(opened, make_state):
    directory = opened()
    make_state(directory, "0_1", "0_2")
    return directory


@pytest.fixture
def run(directory, clock):
    cleaner = Cleaner(directory, ReportMutex(), OffsetSums(), state_cleanup_delay_ms=DELAY_MS)
    cleaner.run()

    def run_cleaner(times: int = 3) -> None:
        for _ in range(times):
            clock.now_ms += 10 * DELAY_MS
            cleaner.run()

    return run_cleaner


@pytest.fixture
def failing(monkeypatch):
    """Let a function of ``os`` fail with an error until it gets None. The error names the files, as the system does."""
    real = {name: getattr(os, name) for name in ("pwrite", "rename", "mkdir", "rmdir", "open", "write")}

    def let_fail(name: str, number: int | None) -> None:
        def fail(*args: object, **_: object) -> None:
            files = args if name in {"rename", "mkdir"} else ()
            raise OSError(number, os.strerror(number), *files[:1], *([None, files[1]] if name == "rename" else []))

        monkeypatch.setattr(os, name, real[name] if number is None else fail)

    return let_fail


@pytest.mark.parametrize(
    ("function", "says", "lines"),
    [
        ("pwrite", "alive cannot be written, the next heartbeat tries again", 1),
        ("rename", "cannot be moved to the trash, so it stays", 2),
        ("mkdir", "cannot be moved to the trash, so it stays", 2),
        ("rmdir", "cannot be deleted, the next run tries again", 2),
    ],
)
def test_a_failure_that_goes_on_is_logged_once(run, failing, caplog, function, says, lines):
    """``lines``: two folders that cannot be removed are two failures."""
    failing(function, errno.EROFS)
    run()
    assert len(caplog.messages) == lines
    assert all(says in line and "Read-only file system" in line for line in caplog.messages)
    failing(function, errno.EIO)
    run()
    assert len(caplog.messages) == 2 * lines
    assert all("Input/output error" in line for line in caplog.messages[lines:])


@pytest.mark.parametrize(("function", "lines"), [("pwrite", 1), ("rename", 2), ("rmdir", 2)])
def test_a_failure_that_comes_back_after_it_was_mended_is_logged_again(
    directory, run, failing, caplog, make_state, function, lines
):
    failing(function, errno.EIO)
    run()
    failing(function, None)
    run()
    assert len(caplog.messages) == lines
    if function != "pwrite":
        assert directory.tasks_on_disk() == list(directory.trash.path.iterdir()) == []
        make_state(directory, "0_1", "0_2")
    failing(function, errno.EIO)
    run(5)
    assert len(caplog.messages) == 2 * lines


def test_a_journal_that_cannot_be_written_after_its_directory_was_created_again_is_logged_once(
    directory, run, failing, caplog
):
    shutil.rmtree(directory.path)
    run(1)
    directory._journal.renew()  # as for a directory that is deleted, on a disk that is full a moment later
    caplog.clear()
    failing("write", errno.ENOSPC)
    run()
    (line,) = caplog.messages
    assert "journal cannot be written, the next line tries again" in line
    failing("write", None)
    run()
    assert len(caplog.messages) == 1
