"""Lines of children on their way to the supervisor's output: whole, and past a failed write."""

from __future__ import annotations

import errno
import io
import os
import threading
from contextlib import closing

import pytest

from kstreams_assign.processes import output
from kstreams_assign.processes.output import LineWriter, Outlet

WITHIN_S = 30


@pytest.fixture
def opened(tmp_path):
    """Return the descriptor of a file that lines are appended to, and what reads it."""
    path = tmp_path / "output"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    yield descriptor, path.read_bytes
    os.close(descriptor)


@pytest.fixture
def pipe():
    """Return the two ends of a pipe; the reading end has a reader that has stalled."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)  # a write that still waits ends with an error
    os.close(writer)


def pass_on(descriptor, text, prefix):
    with closing(Outlet(descriptor)) as outlet:
        outlet.pass_on(io.BytesIO(text), prefix, threading.Event())


def read_until_end_of(reader, last):
    """Read what comes, until it ends with ``last``."""
    data = b""
    while not data.endswith(last):
        data += os.read(reader, 1 << 16)
    return data


def test_a_long_line_of_a_child_stays_one_line(opened):
    descriptor, read = opened
    long = b'{"tasks": "' + b"x" * 1_000_000 + b'"}\n'
    pass_on(descriptor, long + b"next\n", b"[0] ")
    assert read() == b"[0] " + long + b"[0] next\n"


def test_the_last_line_of_a_child_gets_its_end(opened):
    descriptor, read = opened
    pass_on(descriptor, b"first\nlast", b"")
    assert read() == b"first\nlast\n"


def test_a_line_beyond_the_limit_becomes_lines_of_their_own(opened, monkeypatch):
    descriptor, read = opened
    monkeypatch.setattr(output, "LINE_BYTES_MAX", 4)
    pass_on(descriptor, b"123456\n", b"")
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
    writer = LineWriter(descriptor)
    for line, free in (
        (b"first\n", 1_000),
        (b"second\n", 3),
        (b"third\n", 0),
        (b"fourth\n", 1_000),
        (b"fifth\n", 1_000),
    ):
        room[0] = free
        writer.write(line)
    assert read() == b"first\nsec\nfourth\nfifth\n"


def test_after_its_reader_has_ended_nothing_more_is_written(opened):
    descriptor, read = opened
    reader, writer = os.pipe()
    line_writer = LineWriter(writer)
    os.close(reader)
    line_writer.write(b"lost\n")
    os.dup2(descriptor, writer)
    line_writer.write(b"dropped\n")
    os.close(writer)
    assert read() == b""


def test_a_line_does_not_wait_for_a_stalled_reader_and_neither_does_the_close(pipe):
    reader, writer = pipe
    long, last = b"x" * 500_000 + b"\n", b"last\n"
    with closing(Outlet(writer)) as outlet:
        outlet.write(long)
        outlet.write(last)
    assert read_until_end_of(reader, last) == long + last


def test_a_slow_reader_gets_all_lines_at_the_end(pipe, monkeypatch):
    monkeypatch.setattr(output, "LAST_LINES_S", 3.0)
    reader, writer = pipe
    line, taken, pause = b"x" * 99_999 + b"\n", bytearray(), threading.Event()

    def take_slowly():
        while len(taken) < 10 * len(line):
            pause.wait(0.4)
            taken.extend(os.read(reader, len(line)))

    slow = threading.Thread(target=take_slowly, daemon=True)
    with closing(Outlet(writer)) as outlet:
        for _ in range(10):
            outlet.write(line)
        slow.start()
    slow.join(WITHIN_S)
    assert taken == line * 10


def test_lines_beyond_the_limit_are_dropped(pipe, monkeypatch):
    monkeypatch.setattr(output, "BACKLOG_BYTES_MAX", 1_000_000)
    reader, writer = pipe
    long = b"x" * 1_000_000 + b"\n"
    with closing(Outlet(writer)) as outlet:
        outlet.write(long)
        outlet.write(b"dropped\n")
        assert read_until_end_of(reader, b"\n") == long
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)


def test_a_child_waits_for_a_stalled_reader_and_loses_no_line(pipe):
    reader, writer = pipe
    lines = [b"%d" % number * 100_000 + b"\n" for number in range(30)] + [b"last\n"]
    with closing(Outlet(writer)) as outlet:
        child = threading.Thread(
            target=outlet.pass_on, args=(io.BytesIO(b"".join(lines)), b"", threading.Event()), daemon=True
        )
        child.start()
        assert read_until_end_of(reader, lines[-1]) == b"".join(lines)
        child.join(WITHIN_S)
        assert not child.is_alive()


def test_a_child_that_is_to_end_does_not_wait_for_a_stalled_reader(pipe, monkeypatch):
    monkeypatch.setattr(output, "STALLED_S", 0.05)
    ends = threading.Event()
    with closing(Outlet(pipe[1])) as outlet:
        lines = io.BytesIO(b"x" * 1_100_000 + b"\n" + b"next\n" * 1_000)
        child = threading.Thread(target=outlet.pass_on, args=(lines, b"", ends), daemon=True)
        child.start()
        ends.set()
        child.join(WITHIN_S)
        assert not child.is_alive()
