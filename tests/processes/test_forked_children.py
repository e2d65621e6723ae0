"""Processes that an application forks under ``kstreams-assign run`` have the signal handlers of a new process."""

from __future__ import annotations

import signal

import pytest

from tests.processes.supervised import Supervised

FORKING = """\
import multiprocessing
import os
import signal
import threading

from kstreams_assign import Config, Subtopology, Worker


def wait(parent):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2):
        handler = signal.getsignal(number)
        print(number.name, getattr(handler, "name", None) or handler.__name__, flush=True)
    print("the child waits", flush=True)
    while os.getppid() == parent:
        threading.Event().wait(0.1)


def leave(*_):
    raise SystemExit


class Forking(Worker):
    def run(self):
        self.asked_to_close = threading.Event()
        {before}
        multiprocessing.get_context("fork").Process(target=wait, args=(os.getpid(),), daemon=True).start()
        self.asked_to_close.wait()
        print("it has closed in order", flush=True)

    def close(self, operation=None, *, restart=False):
        self.asked_to_close.set()


def make():
    config = Config("forking", "localhost:1")
    return Forking(config, [Subtopology(lambda task, records: None, sources=["in"])])
"""


@pytest.fixture
def forking(tmp_path, track):
    """Return what starts an application that forks; it returns the handlers that the child has, too."""

    def start(before="pass", sighup=signal.SIG_DFL):
        (tmp_path / "app.py").write_text(FORKING.replace("{before}", before))
        own = signal.signal(signal.SIGHUP, sighup)
        try:
            supervised = track(Supervised(["run", "app:make", "--close-timeout", "30"], cwd=tmp_path))
        finally:
            signal.signal(signal.SIGHUP, own)
        supervised.until_line("^the child waits$")
        return supervised, dict(line.split() for line in supervised.lines if line.startswith("SIG"))

    return start


def test_a_forked_child_obeys_sigterm_so_the_process_closes_in_order(forking):
    supervised, handlers = forking()
    assert handlers == {
        "SIGTERM": "SIG_DFL",
        "SIGINT": "default_int_handler",
        "SIGUSR1": "SIG_DFL",
        "SIGHUP": "SIG_DFL",
        "SIGUSR2": "SIG_DFL",
    }
    assert supervised.end() == 0, supervised.lines
    assert "it has closed in order" in supervised.lines


def test_the_handlers_of_the_application_stay(forking):
    _, handlers = forking("signal.signal(signal.SIGTERM, leave); signal.signal(signal.SIGUSR2, leave)")
    assert handlers["SIGTERM"] == handlers["SIGUSR2"] == "leave"
    assert handlers["SIGUSR1"] == "SIG_DFL"


def test_under_nohup_a_forked_child_ignores_sighup(forking):
    _, handlers = forking(sighup=signal.SIG_IGN)
    assert handlers["SIGHUP"] == "SIG_IGN"
