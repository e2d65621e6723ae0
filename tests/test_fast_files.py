"""Temporary files of tests are in memory if enough of it is free, and compiled modules are stored."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

from tests.fast_files import MEMORY_BYTES, write_files_to_memory

PAGE = 4_096


@pytest.mark.parametrize(
    ("free_bytes", "flags", "used"),
    [(MEMORY_BYTES, 0, True), (MEMORY_BYTES - PAGE, 0, False), (MEMORY_BYTES, os.ST_NOEXEC, False)],
)
def test_temporary_files_are_in_memory_where_enough_is_free_and_programs_run(
    monkeypatch, tmp_path, free_bytes, flags, used
):
    room = SimpleNamespace(f_bavail=free_bytes // PAGE, f_frsize=PAGE, f_flag=flags)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    monkeypatch.setattr(tempfile, "tempdir", "of pytest")
    monkeypatch.delenv("TMPDIR", raising=False)
    write_files_to_memory(tmp_path)
    assert os.environ.get("TMPDIR") == (str(tmp_path) if used else None)
    assert tempfile.tempdir == (None if used else "of pytest")


def test_a_folder_that_the_environment_names_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", "/named")
    write_files_to_memory(tmp_path)
    assert os.environ["TMPDIR"] == "/named"


def test_where_no_folder_is_in_memory_nothing_changes(monkeypatch, tmp_path):
    monkeypatch.delenv("TMPDIR", raising=False)
    write_files_to_memory(tmp_path / "missing")
    assert "TMPDIR" not in os.environ


def test_compiled_modules_are_stored_in_every_process_of_a_run():
    ask = "import sys; print(sys.dont_write_bytecode)"
    assert sys.dont_write_bytecode is False
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout == "False\n"
