"""``kstreams-assign drain`` without a settings file: it reaches each process of ``run``, and kills no program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.supervised import WITHIN_S, Supervised
from tests.worker.app import PARTITIONS, App

HOLDER = """\
import signal, sys
from pathlib import Path
from kstreams_assign.state.directory import StateDirectory

with StateDirectory(Path(sys.argv[1]), "app", clock_ms=lambda: 0):
    if sys.argv[2] == "handles":
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    print("ready", flush=True)
    sys.stdin.read()
"""


def drain(*words: str | Path) -> tuple[int, str]:
    """Run the command; return its exit status and what it says."""
    asked = subprocess.run(
        [sys.executable, "-m", "kstreams_assign", "drain", *words],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return asked.returncode, asked.stderr


@pytest.fixture
def start_holder(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start programs that have the state directory of ``app``."""
    started: list[subprocess.Popen[str]] = []

    def start(how: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", HOLDER, str(tmp_path), how]
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        return program

    yield start
    for program in started:
        program.communicate(timeout=WITHIN_S)


@pytest.mark.parametrize(("words", "says"), [([], "drains"), (["--restart"], "ends for a restart")])
def test_every_process_of_run_is_reached_by_application_and_state_directory(
    app: App, track: Callable[[Supervised], Supervised], words: list[str], says: str
) -> None:
    supervised = track(Supervised.counting(app, "--processes", "2"))
    supervised.until_spread(PARTITIONS)
    status, errors = drain("--application-id", app.name, "--state-dir", app.folder / "state", *words)
    assert status == 0, errors
    assert errors.count(says) == errors.count("has ended") == 2
    assert supervised.wait() == 0


def test_a_program_that_handles_the_signal_is_asked(
    start_holder: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = start_holder("handles")
    status, errors = drain("--application-id", "app", "--state-dir", tmp_path)
    assert (status, errors) == (0, f"process {program.pid} drains\nprocess {program.pid} has ended\n")
    assert program.wait(WITHIN_S) == 0


@pytest.mark.parametrize(
    ("words", "handler"),
    [([], "SIGUSR1 that calls worker.drain()"), (["--restart"], "SIGHUP that calls worker.close(")],
)
def test_a_program_that_the_signal_would_kill_is_left_alone(
    start_holder: Callable[[str], subprocess.Popen[str]], tmp_path: Path, words: list[str], handler: str
) -> None:
    program = start_holder("does not")
    status, errors = drain("--application-id", "app", "--state-dir", tmp_path, *words)
    assert status == 2
    assert f"process {program.pid}: " in errors
    assert handler in errors
    program.communicate(timeout=WITHIN_S)
    assert program.returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--config: is missing; give it, or both --application-id and --state-dir"),
        (["--application-id", "app"], "--config: is missing"),
        (["--config", "worker.toml", "--state-dir", "state"], "must be left out with --config"),
    ],
)
def test_a_call_without_a_place_is_refused(words: list[str], says: str) -> None:
    status, errors = drain(*words)
    assert status == 2
    assert says in errors
