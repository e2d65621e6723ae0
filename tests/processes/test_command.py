"""``kstreams-assign run`` refuses a wrong call with one line; rests, kills and output, with small applications."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time

import psutil
import pytest
from typer.testing import CliRunner

from kstreams_assign.cli import app
from kstreams_assign.errors import ConfigError
from kstreams_assign.processes.application import refuse_malformed
from kstreams_assign.processes.supervision import SAME_STOP_MS
from tests.processes.supervised import ROOT, WITHIN_S, Supervised
from tests.worker.app import until

NO_WORKER = """\
class Fake:
    pass


def other(): return 7


def make(name): return 7


def late():
    import absent_library


@__import__("functools").wraps(make)
def wrapped(*given):
    return 7


worker = Fake()
"""


@pytest.mark.parametrize(
    ("application", "says"),
    [
        ("app", "'app': write MODULE:WORKER, as in app:worker for worker = Worker(...) in app.py"),
        ("app:", "write MODULE:WORKER"),
        ("no-module:worker", "write MODULE:WORKER"),
        ("absent:worker", "there is no module 'absent' in "),
        ("app.absent:worker", "there is no module 'app.absent' in "),
        ("app:absent", "'app:absent': the module 'app' has no 'absent'"),
        ("app:worker", "'app:worker': worker is a value of type Fake: must be a Worker, or a function without"),
        ("app:other", "'app:other': other() returned a value of type int: must be a Worker"),
        ("app:make", "'app:make': make(): missing a required argument: 'name': must be a Worker, or a function"),
        ("app:wrapped", "'app:wrapped': wrapped() returned a value of type int: must be a Worker"),
        ("app:late", "app.py:12 imports the module 'absent_library', which is not on the import path; install it"),
        ("lacking:worker", "lacking.py:2 imports the module 'absent_library', which is not on the import path"),
        ("lacking_extra:worker", "the package pyspark is not installed; it belongs to the extra 'history'"),
        ("renamed:worker", "renamed.py:2 cannot import: cannot import name 'absent' from 'json'"),
        ("broken:worker", "broken.py:1: invalid syntax"),
        ("configured:worker", "acceptable_recovery_lag = -1: must be a whole number >= 0"),
        ("listening:worker", "http = '0.0.0.0:8080': several processes cannot listen at one address"),
    ],
)
def test_a_wrong_application_is_exit_2_and_one_line(tmp_path, track, application, says):
    (tmp_path / "app.py").write_text(NO_WORKER)
    (tmp_path / "lacking.py").write_text("import json\nimport absent_library.part\n")
    (tmp_path / "lacking_extra.py").write_text("raise ModuleNotFoundError(name='pyspark')\n")
    (tmp_path / "renamed.py").write_text("import json\nfrom json import absent\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    config = "from kstreams_assign import Config, Subtopology, Worker\nworker = Worker(Config('a', 'b:1', {}), [{}])\n"
    sub = "Subtopology(lambda task, records: None, sources=['in'])"
    (tmp_path / "configured.py").write_text(config.format("acceptable_recovery_lag=-1", sub))
    (tmp_path / "listening.py").write_text(config.format("http='0.0.0.0:8080'", sub))
    supervised = track(Supervised(["run", application, "--processes", "2", "--log-level", "error"], cwd=tmp_path))
    assert supervised.wait() == 2
    [line] = supervised.lines
    assert line.startswith("kstreams-assign: ")
    assert says in line


ORDERLY = """\
import threading

from kstreams_assign import Config, Subtopology, Worker


class Orderly(Worker):
    def run(self):
        self.asked_to_close = threading.Event()
        print("it runs", flush=True)
        self.asked_to_close.wait()
        print("it has closed in order", flush=True)

    def drain(self):
        print("it drains", flush=True)

    def close(self, operation=None, *, restart=False):
        self.asked_to_close.set()


def make():
    config = Config("orderly", "localhost:1")
    return Orderly(config, [Subtopology(lambda task, records: None, sources=["in"])])
"""


FAILING = """\
import os
import sys

print("output of", os.environ["KSTREAMS_ASSIGN_PROCESS"])
print("trouble", file=sys.stderr)
raise RuntimeError("it does not work")
"""


def test_a_process_that_fails_is_started_again_and_its_lines_carry_its_number(tmp_path, track):
    (tmp_path / "app.py").write_text(FAILING)
    supervised = track(Supervised(["run", "app:worker", "--processes", "2"], cwd=tmp_path))
    supervised.until_line(r"Process 1 ended with exit status 1; it is started again in 1 s\.")
    supervised.until_line(r"Process 1 ended with exit status 1; it is started again in 2 s\.")
    assert supervised.end() in (0, 1), "1 if process 0 was just failing again"
    assert "output of 1" in supervised.lines
    assert {"[0] trouble", "[1] trouble", "[1] RuntimeError: it does not work"} <= set(supervised.lines)


def test_a_process_that_ends_by_a_signal_without_a_name_is_started_again(tmp_path, track):
    number = signal.SIGRTMIN + 1
    (tmp_path / "app.py").write_text(f"import os\n\nos.kill(os.getpid(), {number})\n")
    supervised = track(Supervised(["run", "app:worker"], cwd=tmp_path))
    supervised.until_line(rf"Process 0 was ended by signal {number}; it is started again in 1 s\.")
    supervised.end()


def starts_of_1(supervised):
    return [line for line in supervised.lines if "Process 1 is started" in line]


def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_continue(tmp_path, track):
    (tmp_path / "app.py").write_text(
        f"import os\n\n{ORDERLY}\nif os.environ['KSTREAMS_ASSIGN_PROCESS'] == '1':\n    raise RuntimeError('no')\n"
    )
    supervised = track(Supervised(["run", "app:make", "--processes", "2"], cwd=tmp_path))
    supervised.until_line("^it runs$")
    supervised.until_line(r"Process 1 ended with exit status 1; it is started again in \d+ s\.")
    supervisor = psutil.Process(supervised.popen.pid)
    soft, hard = supervisor.rlimit(psutil.RLIMIT_NOFILE)
    supervisor.rlimit(psutil.RLIMIT_NOFILE, (1, hard))
    supervised.until_line(r"Process 1 could not be started: .*open files; it is started again in \d+ s\.")
    supervisor.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))
    starts = len(starts_of_1(supervised))
    until(lambda: len(starts_of_1(supervised)) > starts, WITHIN_S)
    assert supervised.lines.count("it runs") == 1
    assert supervised.end() in (0, 1), "1 if process 1 was just failing again"
    assert "it has closed in order" in supervised.lines


def test_with_json_log_the_supervisor_reports_its_events_as_json(tmp_path, track):
    (tmp_path / "app.py").write_text(FAILING)
    supervised = track(Supervised(["run", "app:worker", "--json-log"], cwd=tmp_path))
    supervised.until_line('"process_ended"')
    supervised.end()
    events = [json.loads(line) for line in supervised.lines if line.startswith("{")]
    assert [event["event"] for event in events][:2] == ["process_started", "process_ended"]
    assert {"process": 0, "status": 1, "restart_in_ms": 1_000}.items() <= events[1].items()


STUBBORN = """\
import threading

from kstreams_assign import Config, Subtopology, Worker


class Stubborn(Worker):
    def run(self):
        print("it runs", flush=True)
        threading.Event().wait()


def make():
    config = Config("stubborn", "localhost:1")
    return Stubborn(config, [Subtopology(lambda task, records: None, sources=["in"])])
"""


@pytest.fixture
def stubborn(tmp_path, track):
    """Return what starts two processes that never close."""

    def start(*options):
        (tmp_path / "app.py").write_text(STUBBORN)
        supervised = track(Supervised(["run", "app:make", "--processes", "2", *options], cwd=tmp_path))
        until(lambda: supervised.lines.count("it runs") == 2, WITHIN_S)
        return supervised, supervised.children()

    return start


def test_processes_that_do_not_close_in_time_are_killed_and_the_exit_status_is_1(stubborn):
    supervised, children = stubborn("--close-timeout", "1")
    assert supervised.end() == 1
    assert {"Process 0 is killed.", "Process 1 is killed."} <= {line[32:] for line in supervised.lines}
    assert [child for child in children if child.is_running()] == []


def test_a_second_signal_ends_all_at_once(stubborn):
    supervised, children = stubborn()
    supervised.send(signal.SIGTERM)
    supervised.until_line(r"The processes are asked to close \(2\)\.")
    no_longer_the_same_s = time.monotonic() + SAME_STOP_MS / 1000
    until(lambda: time.monotonic() >= no_longer_the_same_s, WITHIN_S)
    assert supervised.end(signal.SIGINT) == 1
    supervised.until_line(r"Asked to end a second time: processes that still run are killed \(2\)\.")
    assert [child for child in children if child.is_running()] == []


def test_a_signal_that_is_delivered_twice_closes_all_in_order(tmp_path, track):
    (tmp_path / "app.py").write_text(ORDERLY)
    supervised = track(Supervised(["run", "app:make", "--processes", "2"], cwd=tmp_path))
    until(lambda: supervised.lines.count("it runs") == 2, WITHIN_S)
    supervised.send(signal.SIGTERM)
    supervised.send(signal.SIGINT)  # two equal signals may arrive as one
    assert supervised.wait() == 0
    assert supervised.lines.count("it has closed in order") == 2


def test_the_first_sigterm_during_a_drain_closes_all_in_order(tmp_path, track):
    (tmp_path / "app.py").write_text(ORDERLY)
    supervised = track(Supervised(["run", "app:make", "--processes", "2"], cwd=tmp_path))
    until(lambda: supervised.lines.count("it runs") == 2, WITHIN_S)
    supervised.send(signal.SIGUSR1)
    until(lambda: supervised.lines.count("it drains") == 2, WITHIN_S)
    assert supervised.end(signal.SIGTERM) == 0
    assert supervised.lines.count("it has closed in order") == 2
    supervised.until_line(r"The processes are asked to close \(2\)\.")


def test_a_process_that_does_not_close_does_not_outlive_its_supervisor_for_long(stubborn):
    supervised, children = stubborn("--close-timeout", "1")
    supervised.popen.kill()
    assert psutil.wait_procs(children, WITHIN_S)[1] == []


def test_an_address_in_use_is_exit_2_before_anything_is_started(tmp_path, track, stubborn):
    supervised, _ = stubborn("--http", "127.0.0.1:0", "--close-timeout", "1")
    port = supervised.until_line(r"status page are at http://127\.0\.0\.1:(\d+)/")[1]
    second = track(Supervised(["run", "app:make", "--http", f"127.0.0.1:{port}"], cwd=tmp_path))
    assert second.wait() == 2
    assert re.search("address is in use; choose another port", "\n".join(second.lines))
    assert len(second.lines) == 1


LOUD = """\
import sys
import threading
from pathlib import Path

from kstreams_assign import Config, Subtopology, Worker


class Loud(Worker):
    def run(self):
        self.asked_to_close = threading.Event()
        while True:
            print("x" * 100_000, flush=True)
            print("y" * 100_000, file=sys.stderr)
            if self.asked_to_close.is_set() and {closes}:
                break
        Path("closed").touch()

    def close(self, operation=None, *, restart=False):
        self.asked_to_close.set()


def make():
    config = Config("loud", "localhost:1")
    return Loud(config, [Subtopology(lambda task, records: None, sources=["in"])])
"""
PIPE_IS_FULL_BYTES = 60_000


def bytes_to_read(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize(("closes", "timeout", "status"), [(True, "60", 0), (False, "1", 1)], ids=["closes", "hangs"])
def test_processes_end_on_one_signal_although_the_readers_of_their_output_have_stalled(
    tmp_path, closes, timeout, status
):
    (tmp_path / "app.py").write_text(LOUD.replace("{closes}", str(closes)))
    command = [sys.executable, "-m", "kstreams_assign", "run", "app:make", "--json-log", "--log-level", "info"]
    with subprocess.Popen(
        [*command, "--close-timeout", timeout],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as popen:
        try:
            until(lambda: min(map(bytes_to_read, (popen.stdout, popen.stderr))) > PIPE_IS_FULL_BYTES, WITHIN_S)
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(WITHIN_S) == status
        finally:
            popen.kill()
    assert (tmp_path / "closed").exists() == closes


def test_under_nohup_the_supervisor_ignores_sighup_and_its_processes_take_it(tmp_path, track):
    (tmp_path / "app.py").write_text(ORDERLY)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        supervised = track(Supervised(["run", "app:make", "--processes", "2"], cwd=tmp_path))
    finally:
        signal.signal(signal.SIGHUP, before)
    until(lambda: supervised.lines.count("it runs") == 2, WITHIN_S)
    supervised.send(signal.SIGHUP)
    supervised.children()[0].send_signal(signal.SIGHUP)  # as ``drain --restart`` does
    supervised.until_line(r"Process \d has ended, as it was closed or drained on its own; it is not started again\.")
    assert supervised.end() == 0
    assert not any("asked to restart" in line for line in supervised.lines)


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "86401"])
def test_a_close_timeout_that_cannot_be_is_refused(seconds):
    called = CliRunner().invoke(app, ["run", "app:worker", "--close-timeout", seconds])
    assert called.exit_code == 2
    assert "--close-timeout" in called.output


def test_a_malformed_name_is_refused_before_a_process_is_started():
    for name in ("app", ":", "a:b:c", "a b:c", "a..b:c", ":worker"):
        with pytest.raises(ConfigError, match="write MODULE:WORKER"):
            refuse_malformed(name)
    refuse_malformed("pack.app:things.worker")
