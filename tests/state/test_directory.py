"""The state directory: one process, one owner a task, an identity that stays, a grace that counts from the release."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError, StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state import directory
from kstreams_assign.state.directory import StateDirectory, holder_of, roots_of_processes
from kstreams_assign.state.journal import read_journal
from kstreams_assign.state.lock import take_lock

T1, T2 = TaskId(0, 1), TaskId(0, 2)

_HOLDER = """
import sys
from pathlib import Path
from kstreams_assign.state.directory import StateDirectory
directory = StateDirectory(Path(sys.argv[1]), "app", clock_ms=lambda: 0)
print(directory.process_id, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.first_line = process.stdout.readline().strip()
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_refused_with_the_holders_pid(opened, holder):
    with pytest.raises(StateDirectoryLocked, match=rf"process {holder.pid} on host {os.uname().nodename}"):
        opened()


def test_the_directory_is_free_as_soon_as_its_process_is_killed_and_the_identity_stays(opened, holder):
    holder.kill()
    holder.wait()
    assert str(opened().process_id) == holder.first_line


def test_two_objects_of_a_process_cannot_share_it(opened):
    opened()
    with pytest.raises(StateDirectoryLocked, match=f"process {os.getpid()}"):
        opened()


def test_a_lock_whose_holder_cannot_be_written_is_let_go(tmp_path, monkeypatch):
    def fail() -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full_disk:
        full_disk.setattr("kstreams_assign.state.lock.platform.node", fail)
        with pytest.raises(OSError, match="No space left") as _kept:  # with the frame that has the file
            take_lock(tmp_path)
    take_lock(tmp_path).close()


def test_looking_at_the_lock_blocks_no_process(opened, tmp_path):
    """As ``drain`` and ``clean --dry-run`` do while a worker is started again."""
    opened().close()
    stop, looks = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            looks.append(holder_of(tmp_path, "app"))

    looking = [threading.Thread(target=look) for _ in range(3)]
    for thread in looking:
        thread.start()
    try:
        for _ in range(100):
            opened().close()
    finally:
        stop.set()
        for thread in looking:
            thread.join()
    assert set(looks) <= {None, os.getpid()}


@pytest.mark.parametrize("look", [holder_of, roots_of_processes])
def test_a_directory_of_another_user_is_a_wrong_call(look, opened, tmp_path, monkeypatch):
    opened()

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(directory, "holder", refuse)
    monkeypatch.setattr(Path, "glob", refuse)
    with pytest.raises(ConfigError, match=f"{tmp_path}.*Permission denied.*run this command as the user of the worker"):
        look(tmp_path, "app")


def test_the_process_id_survives_a_restart_and_differs_between_applications(opened, tmp_path, clock):
    first = opened()
    first.close()
    assert opened().process_id == first.process_id
    with StateDirectory(tmp_path, "other", clock_ms=clock) as other:
        assert other.process_id != first.process_id


def test_a_process_file_of_a_later_version_is_read(opened):
    first = opened()
    first.close()
    kept = {"version": 7, "process_id": str(first.process_id), "colour": "blue"}
    (first.path / "process").write_text(json.dumps(kept))
    assert opened().process_id == first.process_id


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process_id": 3}', '{"process_id": "x"}', "\0\0"])
def test_a_process_file_that_cannot_be_read_costs_the_identity_but_not_the_start(opened, content):
    first = opened()
    first.close()
    (first.path / "process").write_text(content)
    second = opened()
    assert second.process_id != first.process_id
    (warning,) = second.warnings
    assert f"{second.process_id}; before it was {first.process_id}" in warning
    assert "is damaged" in warning
    second.close()
    assert opened().process_id == second.process_id


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_an_application_id_that_names_no_folder_is_refused(tmp_path, clock, name):
    with pytest.raises(ConfigError, match="application_id"):
        StateDirectory(tmp_path, name, clock_ms=clock)


@pytest.mark.parametrize(("root", "application_id"), [("caf\udce9", "app"), ("state", "app\udce9")])
def test_a_path_that_rocksdb_cannot_take_is_refused_before_it_is_created(tmp_path, clock, root, application_id):
    """Python writes a byte that is not UTF-8 as a lone surrogate."""
    with pytest.raises(ConfigError, match=r"udce9.*: it must be UTF-8"):
        StateDirectory(tmp_path / root, application_id, clock_ms=clock)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_a_file_is_a_state_error(tmp_path, clock):
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="cannot be used"):
        StateDirectory(tmp_path / "file", "app", clock_ms=clock)


def test_tasks_on_disk_are_folders_spelled_exactly_as_task_ids(opened, make_state):
    directory = opened()
    make_state(directory, "0_10", "0_2", "named__0_2")
    for name in ("00_2", "0_3.draft", "x", "-1_0"):
        (directory.path / name).mkdir()
    (directory.path / "0_4").touch()
    assert list(map(str, directory.tasks_on_disk())) == ["0_2", "0_10", "named__0_2"]


def test_a_task_has_one_owner_at_a_time(opened):
    directory = opened()
    assert directory.lock_task(T1) == directory.task_path(T1)
    with pytest.raises(StateError, match="0_1"):
        directory.lock_task(T1)
    directory.lock_task(T2)
    directory.release_task(T1)
    directory.lock_task(T1)


def test_releasing_or_discarding_what_is_not_locked_is_an_error(opened, make_state):
    directory = opened()
    make_state(directory, "0_1")
    for act in (directory.release_task, directory.discard):
        with pytest.raises(StateError, match="not locked"):
            act(T1)
    assert directory.tasks_on_disk() == [T1]


def test_grace_counts_from_the_release_and_not_from_the_folders_age(opened, clock, make_state):
    directory = opened()
    directory.lock_task(T1)
    make_state(directory, "0_1")
    os.utime(directory.task_path(T1), (0, 0))
    clock.now_ms += 10_000
    assert directory.idle_tasks(500) == []
    clock.now_ms += 10_000
    directory.release_task(T1)
    assert (directory.idle_tasks(500), directory.retire(T1, 500)) == ([], False)
    clock.now_ms += 500
    assert directory.idle_tasks(500) == [T1]
    assert directory.retire(T1, 500)
    assert directory.tasks_on_disk() == directory.idle_tasks(0) == []


def test_grace_of_a_folder_found_at_the_start_counts_from_the_start(opened, clock, make_state):
    directory = opened()
    make_state(directory, "0_1")
    directory.close()
    os.utime(directory.task_path(T1), (0, 0))
    clock.now_ms += 10_000
    directory = opened()
    clock.now_ms += 499
    assert directory.idle_tasks(500) == []
    clock.now_ms += 1
    assert directory.idle_tasks(500) == [T1]


def test_a_task_locked_again_is_not_idle_and_its_delay_starts_again(opened, clock, make_state):
    directory = opened()
    make_state(directory, "0_1")
    clock.now_ms += 500
    directory.lock_task(T1)
    assert not directory.retire(T1, 500)
    directory.release_task(T1)
    assert not directory.retire(T1, 500)


def test_a_retired_task_starts_with_an_empty_folder(opened, make_state):
    directory = opened()
    for _ in range(3):
        make_state(directory, "0_1")
        assert directory.retire(T1, 0)
    assert len(list(directory.trash.path.iterdir())) == 3
    directory.trash.empty()
    assert list(directory.trash.path.iterdir()) == []


def test_a_damaged_folder_is_discarded_while_its_task_stays_locked(opened, make_state):
    directory = opened()
    directory.lock_task(T1)
    directory.discard(T1)  # nothing there: fine
    make_state(directory, "0_1")
    directory.discard(T1)
    assert not directory.task_path(T1).exists()
    assert (directory.trash.path / "0_1.0" / "data").exists(), (
        "to delete it takes long; the caller of discard must not wait for it"
    )
    assert list(read_journal(directory.path).trashed) == ["0_1.0"]
    with pytest.raises(StateError, match="in use"):
        directory.lock_task(T1)
    make_state(directory, "0_1")
    directory.trash.empty()
    assert list(directory.trash.path.iterdir()) == []
    assert (directory.task_path(T1) / "data").exists()


def test_a_folder_behind_a_link_is_let_go_without_touching_what_it_points_to_and_is_named(opened, tmp_path, caplog):
    directory = opened()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").touch()
    directory.task_path(T1).symlink_to(tmp_path / "elsewhere")
    assert directory.retire(T1, 0)
    directory.trash.empty()
    assert list(directory.trash.path.iterdir()) == []
    assert (tmp_path / "elsewhere" / "data").exists()
    (message,) = caplog.messages
    assert message.startswith(f"{directory.task_path(T1)} was a link to {tmp_path / 'elsewhere'}: that folder stays")


def test_closing_with_tasks_in_use_is_named(opened, caplog):
    directory = opened()
    directory.lock_task(T1)
    directory.close()
    assert "0_1" in caplog.text


def test_a_locked_task_keeps_its_folder_while_the_cleaner_runs(opened):
    """Real threads: an owner makes and looks for its folder between lock and release, a cleaner retires at will."""
    directory = opened()
    stop = threading.Event()
    missing = []

    def clean() -> None:
        while not stop.is_set():
            directory.retire(T1, 0)

    def own() -> None:
        for _ in range(500):
            path = directory.lock_task(T1)
            path.mkdir(exist_ok=True)
            if not path.exists():
                missing.append(path)
            directory.release_task(T1)
        stop.set()

    threads = [threading.Thread(target=clean), threading.Thread(target=own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
