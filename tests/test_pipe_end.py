"""A reader of standard output that ends early ends a command in order: exit status 0, and nothing on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kstreams_assign.observe.snapshot import snapshot_text
from tests.observe.seen_group import scaled_out
from tests.worker.app import App

LINE = b'{"hex": "0000000c0000000c"}\n'
COMMAND = (sys.executable, "-m", "kstreams_assign")


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield process
        process.kill()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    assert process.stderr is not None
    errors = process.stderr.read()
    return process.wait(100), errors


@pytest.mark.parametrize(
    "words", [("simulate", "policies"), ("--help",), ("--version",), ("peer", "info")], ids=" ".join
)
def test_a_reader_that_is_gone_before_the_first_byte(words: tuple[str, ...]) -> None:
    with started(*words) as process:
        process.stdout.close()
        assert ended(process) == (0, b"")


def test_a_reader_that_takes_one_line_of_many() -> None:
    with started("simulate", "policies", "--json") as process:
        assert process.stdout.read(1)
        process.stdout.close()
        assert ended(process) == (0, b"")


def test_json_lines_end_with_the_first_answer_that_is_not_read() -> None:
    with started("peer", "decode-subscription") as process:
        process.stdin.write(LINE)
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        process.stdin.write(LINE)
        process.stdin.flush()
        assert ended(process) == (0, b""), "standard input is open yet"


def test_a_command_that_watches_ends_with_its_reader(app_on_broker: App) -> None:
    with started("inspect", app_on_broker.name, "-b", app_on_broker.broker, "--watch") as process:
        assert process.stdout.readline()
        process.stdout.close()
        app_on_broker.start(2)  # so that the next output differs
        assert ended(process) == (0, b"")


@pytest.fixture
def app_on_broker(broker: str, tmp_path) -> Iterator[App]:
    app = App(broker, "pipe-end", tmp_path)
    app.start(1).until_running(4)
    yield app
    app.stop()


def test_a_failure_before_the_end_keeps_its_status() -> None:
    with started("decode", "subscription", "00") as process:
        process.stdout.close()
        status, errors = ended(process)
    assert (status, errors.count(b"\n")) == (1, 1)


def test_what_an_encoding_does_not_have_is_escaped(tmp_path: Path) -> None:
    saved = tmp_path / "group.json"
    saved.write_text(snapshot_text(scaled_out().snapshot()))
    done = subprocess.run(
        [*COMMAND, "inspect", saved],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(r"app \xb7 Stable")


def test_a_disk_that_is_full_is_one_line() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot write to standard output" in done.stderr
