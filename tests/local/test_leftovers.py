"""What is swept away and what is not. The processes here hold folders as a broker and its JVM do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from kstreams_assign.local import leftovers

HOLD = "import sys; from pathlib import Path; from kstreams_assign.local import leftovers; "
HOLDER = HOLD + "fd = leftovers.hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
HANDED_ON = (
    HOLD + "import subprocess; fd = leftovers.hold(Path(sys.argv[1])); "
    "subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], pass_fds=[fd], stdout=2); "
    "print('held', flush=True)"
)


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def holder(code, folder):
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_folder_goes_once_its_holder_was_killed_and_not_before():
    folder = leftovers.fresh_folder()
    with holder(HOLDER, folder) as process:
        assert leftovers.sweep(older_than_s=-1) == []
        process.kill()
        process.wait()
        assert leftovers.sweep(older_than_s=-1) == [folder]
    assert not folder.exists()


def test_a_folder_stays_while_the_child_that_was_given_the_lock_lives():
    """So a detached broker, whose starter has long ended, keeps its data."""
    folder = leftovers.fresh_folder()
    with holder(HANDED_ON, folder) as starter:
        starter.wait()
        assert leftovers.sweep(older_than_s=-1) == []
        starter.stdin.close()  # the child reads the same pipe and ends
        assert starter.stderr.read() == b""  # end of file: the child has ended
        assert leftovers.sweep(older_than_s=-1) == [folder]


def test_young_folders_and_those_without_a_lock_file_stay():
    held_once = leftovers.fresh_folder()
    os.close(leftovers.hold(held_once))
    never_held = leftovers.fresh_folder()
    assert leftovers.sweep() == []
    assert leftovers.sweep(older_than_s=-1) == [held_once]
    assert never_held.exists()


def test_folders_of_others_are_not_looked_at(temporary):
    foreign = temporary / "other-program"
    foreign.mkdir()
    os.close(leftovers.hold(foreign))
    assert leftovers.sweep(older_than_s=-1) == []
