"""The pages of ``docs/tutorial``: their commands in order, and what they print.

A command that looks at something is repeated until it prints what the page shows: the page's lines have to be among
the printed lines, in the same order. Times, ids and task lists are compared by their shape, rows of tables by their
first cell.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from tests.docs_site.pages import ROOT, blocks

LOOKS = (
    "cat ",
    "grep ",
    "tail ",
    "kstreams-assign inspect",
    "kstreams-assign get",
    "kstreams-assign dead-letters",
    "kstreams-assign topic consume",
    "kstreams-assign topic list",
)
WITHIN_S = 120
DONE = re.compile(r"^done (\d+)$")
SHAPES = (
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b", "ID"),
    (r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    (r"\(\d_\d(, \d_\d)*\)", "(TASKS)"),
    (r"within a second of|[\d.]+ \w+ after", "SOON AFTER"),
    (r"generation \d+", "generation N"),
    (r"for \d+ min \d+ s|for \d+ \w+", "for N s"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"pid: \d+|process \d+|data_dir: .*|data in .*:", "BROKER"),
)
pytestmark = pytest.mark.timeout(600)  # several waits, each with a limit of its own


class Step(NamedTuple):
    """A command of a page, and the lines that the page shows after it."""

    command: str
    shown: list[str]


def steps(page: str) -> Iterator[Step]:
    for block in blocks(page):
        if block.language == "console":
            for text in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                lines = text.splitlines()
                length = 1 + next(n for n, line in enumerate(lines) if not line.endswith("\\"))
                yield Step("\n".join(lines[:length]), lines[length:])


def shape(lines: Sequence[str]) -> list[str]:
    """What has to be the same in every run."""
    text = "\n".join(re.sub(r"^│(.*?)│.*", r"\1", line) for line in lines if not line.startswith(("╭", "├", "╰")))
    for pattern, name in SHAPES:
        text = re.sub(pattern, name, text, flags=re.IGNORECASE)
    return [line.strip() for line in text.splitlines() if line.strip()]


def has(printed: Sequence[str], shown: Sequence[str]) -> bool:
    """Whether the shown lines were printed in this order; a count of records is on standard error, so at any place."""
    lines = shape(printed)
    rest = iter(lines)
    return all(line in (lines if line.endswith(" shown") else rest) for line in shape(shown))


class Terminal:
    """A shell with job control, in a folder of its own; port 9092 of the pages is a free port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--norc", "-m"],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit status, and the lines that it printed."""
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{command.rstrip()}\necho done $?\n".replace("9092", self.port))
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if end := DONE.match(line):
                return int(end[1]), lines
            lines.append(line.rstrip("\n"))
        pytest.fail(f"the shell ended: {command}")

    def close(self) -> None:
        self.run("kill -KILL $(jobs -p)")
        self.run("kstreams-assign broker stop --data-dir broker")
        self._shell.communicate()


def follow(page: str, terminal: Terminal) -> None:
    for command, shown in steps(page):
        deadline = time.monotonic() + WITHIN_S
        status, printed = terminal.run(command)
        while not has(printed, shown) and command.startswith(LOOKS) and time.monotonic() < deadline:
            Event().wait(0.5)
            status, printed = terminal.run(command)
        assert has(printed, shown), (command, shape(shown), shape(printed))
        assert status == 0 or command.startswith("kill"), (command, printed)


@pytest.fixture
def terminal(broker: str, tmp_path: Path) -> Iterator[Terminal]:  # noqa: ARG001  # says whether a broker can run here
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def test_the_application_of_the_tutorial_survives_a_kill(terminal, tmp_path):
    shutil.copy(ROOT / "examples" / "tutorial" / "orders.py", tmp_path)
    follow("docs/tutorial/orders.md", terminal)


def test_the_application_that_is_ready_for_operation_does_what_its_page_says(terminal, tmp_path):
    for name in ("shop.py", "test_shop.py"):
        text = (ROOT / "examples" / "tutorial" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("9092", terminal.port), encoding="utf-8")
    follow("docs/tutorial/shop.md", terminal)


def test_the_tests_of_the_tutorial_run_side_by_side_and_leave_no_state_behind(tmp_path):
    """Each process of pytest imports the application's module; a worker would lock the state directory."""
    for name in ("shop.py", "test_shop.py"):
        shutil.copy(ROOT / "examples" / "tutorial" / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_shop.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop.py", "test_shop.py"]


def test_the_application_in_javascript_counts_at_the_sidecar(terminal, tmp_path, node):
    shutil.copy(ROOT / "examples" / "tutorial" / "worker.toml", tmp_path)
    shutil.copytree(Path(node[1]).parent, tmp_path / "sidecar_node")
    text = (tmp_path / "worker.toml").read_text(encoding="utf-8")
    (tmp_path / "worker.toml").write_text(text.replace("9092", terminal.port), encoding="utf-8")
    follow("docs/tutorial/sidecar.md", terminal)
