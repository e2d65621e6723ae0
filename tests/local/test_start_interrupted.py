"""``broker start`` that a signal ends, with a Java that never answers: no process is left that cannot be stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kstreams_assign.local.interrupt import undone_by_signals
from tests.local.fake_java import STARTED, fake_java

WITHIN_S = 60
BROKER = [sys.executable, "-m", "kstreams_assign", "broker"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A cache and a temporary folder of its own; the test's processes are ended afterwards."""
    (tmp_path / "temporary").mkdir()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a run under nohup would pass on that it is ignored
    yield os.environ | fake_java(tmp_path) | {"TMPDIR": str(tmp_path / "temporary")}
    signal.signal(signal.SIGHUP, before)
    for process in _jvms(tmp_path):
        process.kill()


def _jvms(folder: Path) -> list[psutil.Process]:
    java = str(folder / "java" / "bin" / "java")
    return [each for each in psutil.process_iter(["cmdline"]) if java in (each.info["cmdline"] or ())]


def _await(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    while not condition():
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)


def _runs(folder: Path) -> bool:
    return any(log.read_text() == STARTED for log in folder.glob("temporary/*/broker.log"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_broker_that_has_not_answered_yet(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen([*BROKER, "start"], env=environment, stderr=subprocess.PIPE, text=True) as process:
        _await(lambda: _runs(tmp_path), process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, errors) == (128 + number, "interrupted; nothing is left running\n")
    assert not _jvms(tmp_path)
    assert not list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "cache" / "running").iterdir())


def test_a_start_that_is_killed_leaves_a_broker_that_can_be_stopped(
    environment: dict[str, str], tmp_path: Path
) -> None:
    records = tmp_path / "cache" / "running"
    with subprocess.Popen([*BROKER, "start"], env=environment, text=True) as process:
        _await(lambda: _runs(tmp_path) and any(record.read_text() for record in records.glob("*.json")), process)
        process.kill()
    (jvm,) = _jvms(tmp_path)
    stopped = subprocess.run(
        [*BROKER, "stop", "--json"], env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=True
    )
    assert json.loads(stopped.stdout)["pid"] == jvm.pid
    psutil.wait_procs([jvm], WITHIN_S)
    assert not _jvms(tmp_path)
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(records.iterdir())


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with undone_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
