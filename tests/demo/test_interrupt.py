"""However and whenever the demonstration is ended, it leaves no process, no port and no folder behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.broker

WITHIN_S = 90


@contextmanager
def demo(folder: Path, *arguments: str):
    """The command as a user starts it, with ``folder`` for all that is temporary."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreams_assign", "demo", "--plain", *arguments],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], pattern: str) -> None:
    for line in process.stderr:
        if re.search(pattern, line):
            return
    pytest.fail(f"the demo ended without saying {pattern!r}")


def wait_for_folder(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the run has begun to write: the broker is being started then."""
    while not list(folder.glob("kstreams-assign-demo-*/broker")):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, WITHIN_S)
    return alive


@pytest.mark.parametrize(
    "moment",
    [None, r"w1: started", r"w2: joins", r"orders come in"],
    ids=["the broker starts", "a worker starts", "a rebalance", "orders come in"],
)
def test_ctrl_c_leaves_nothing_behind(tmp_path, moment):
    with demo(tmp_path) as process:
        if moment is None:
            wait_for_folder(tmp_path, process)
        else:
            read_until(process, moment)
        children = family(process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert output == ""
    assert moment is None or children
    assert still_running(children) == []
    assert list(tmp_path.iterdir()) == []


def test_a_second_ctrl_c_does_not_disturb_the_clean_up(tmp_path):
    with demo(tmp_path) as process:
        read_until(process, r"orders come in")
        children = family(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130
    assert still_running(children) == []
    assert list(tmp_path.iterdir()) == []


def test_terminate_ends_it_in_order_too(tmp_path):
    with demo(tmp_path) as process:
        read_until(process, r"w1: started")
        children = family(process)
        process.terminate()
        process.communicate(timeout=WITHIN_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert still_running(children) == []
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_takes_its_processes_along(tmp_path):
    with demo(tmp_path) as process:
        read_until(process, r"orders come in")
        children = family(process)
        process.kill()
        process.communicate(timeout=WITHIN_S)
    assert len(children) == 3  # the broker and two workers
    assert still_running(children) == []


def test_keep_keeps_the_runs_folder_and_says_where_it_is(tmp_path):
    with demo(tmp_path, "--keep") as process:
        read_until(process, r"w1: started")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WITHIN_S)
    (folder,) = tmp_path.iterdir()
    assert f"kept {folder}" in errors
    assert {path.name for path in folder.iterdir()} >= {"broker", "events.jsonl", "w1.log"}


def test_a_file_that_could_not_be_written_in_the_end_is_refused_in_the_beginning(tmp_path):
    with demo(tmp_path, "--json", str(tmp_path / "missing" / "demo.json")) as process:
        _, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 2
    assert "does not exist; create it first" in errors
    assert list(tmp_path.iterdir()) == []
