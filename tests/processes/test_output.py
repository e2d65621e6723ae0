"""Lines of children on their way to the supervisor's output: whole, and past a failed write."""

from __future__ import annotations

import errno
import io
import os

import pytest

from kstreams_assign.processes import output
from kstreams_assign.processes.output import Outlet


@pytest.fixture
def opened(tmp_path):
    """Return the descriptor of a file that lines are appended to, and what reads it."""
    path = tmp_path / "output"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    yield descriptor, path.read_bytes
    os.close(descriptor)


def test_a_long_line_of_a_child_stays_one_line(opened):
    descriptor, read = opened
    long = b'{"tasks": "' + b"x" * 1_000_000 + b'"}\n'
    Outlet(descriptor).pass_on(io.BytesIO(long + b"next\n"), b"[0] ")
    assert read() == b"[0] " + long + b"[0] next\n"


def test_the_last_line_of_a_child_gets_its_end(opened):
    descriptor, read = opened
    Outlet(descriptor).pass_on(io.BytesIO(b"first\nlast"), b"")
    assert read() == b"first\nlast\n"


def test_a_line_beyond_the_limit_becomes_lines_of_their_own(opened, monkeypatch):
    descriptor, read = opened
    monkeypatch.setattr(output, "LINE_BYTES_MAX", 4)
    Outlet(descriptor).pass_on(io.BytesIO(b"123456\n"), b"")
    assert read() == b"1234\n56\n"


def test_a_full_disk_costs_only_the_lines_that_it_did_not_take(opened, monkeypatch):
    """The disk takes three bytes of the second line, nothing of the third, and all of the fourth."""
    descriptor, read = opened
    room: list[int] = [1_000]
    write = os.write

    def write_as_room_allows(where, data):
        taken = min(len(data), room[0])
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= taken
        return write(where, data[:taken])

    monkeypatch.setattr(os, "write", write_as_room_allows)
    outlet = Outlet(descriptor)
    for line, free in (
        (b"first\n", 1_000),
        (b"second\n", 3),
        (b"third\n", 0),
        (b"fourth\n", 1_000),
        (b"fifth\n", 1_000),
    ):
        room[0] = free
        outlet.write(line)
    assert read() == b"first\nsec\nfourth\nfifth\n"


def test_after_its_reader_has_ended_nothing_more_is_written(opened):
    descriptor, read = opened
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    os.close(reader)
    outlet.write(b"lost\n")
    os.dup2(descriptor, writer)
    outlet.write(b"dropped\n")
    os.close(writer)
    assert read() == b""
