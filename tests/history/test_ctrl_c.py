"""Ctrl-C at a command that needs Spark: exit status 130, no stack trace, and no JVM is left, whenever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from kstreams_assign.history.ctrl_c import CtrlC
from tests.worker.app import until

PATIENCE_S = 120
SIMULATE = ("simulate", "--count", "100000", "--faults", "--spark", "local[1]")


class Jvm:
    """Stands for a JVM's process."""

    def __init__(self) -> None:
        self.ended = 0

    def terminate(self) -> None:
        self.ended += 1


def starts(process: psutil.Process) -> bool:
    """Spark's scripts have begun to start the JVM, which has not answered yet."""
    return has_child(process, "SparkSubmit")


def works(process: psutil.Process) -> bool:
    """A Python of Spark works on the seeds."""
    return has_child(process, "pyspark.daemon")


def has_child(process: psutil.Process, word: str) -> bool:
    return any(word in command_line(child) for child in process.children(recursive=True))


def command_line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):  # it has ended
        return " ".join(process.cmdline())
    return ""


@pytest.fixture(autouse=True)
def pythons_handler() -> Iterator[None]:
    """Python's own handler for the test, which pytest may have replaced."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("moment", [starts, works], ids=["it starts", "it works"])
def test_it_ends_a_command_and_its_jvm(moment: Callable[[psutil.Process], bool]):
    command = [sys.executable, "-m", "kstreams_assign", *SIMULATE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            process = psutil.Process(running.pid)
            until(lambda: moment(process), PATIENCE_S)
            started = process.children(recursive=True)
            running.send_signal(signal.SIGINT)
            said = running.communicate(timeout=PATIENCE_S)[1]
        finally:
            running.kill()
    assert running.returncode == 130, said
    assert said.splitlines()[0] == "starting Spark, which takes some seconds"
    assert said.splitlines()[-1].startswith("interrupted after ")
    assert "Traceback" not in said
    assert "Error" not in said
    assert psutil.wait_procs(started, PATIENCE_S)[1] == []


def test_it_ends_a_jvm_that_is_named_after_it():
    jvm = Jvm()

    def interrupted() -> None:
        with CtrlC() as ctrl_c:
            signal.raise_signal(signal.SIGINT)
            ctrl_c.ends(jvm)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert jvm.ended == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_that_follows_from_it_is_not_shown():
    def interrupted() -> None:
        with CtrlC():
            signal.raise_signal(signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt) as ended:
        interrupted()
    assert ended.value.__suppress_context__


def test_without_it_an_error_stays():
    with pytest.raises(OSError, match="disk"), CtrlC():
        raise OSError("disk")


def test_a_handler_of_the_program_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with CtrlC() as ctrl_c:
        ctrl_c.listen()
        signal.raise_signal(signal.SIGINT)
    assert heard == [1]


def test_a_handler_that_the_block_sets_stays():
    heard = []
    with CtrlC():
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    signal.raise_signal(signal.SIGINT)
    assert heard == [1]


def test_in_another_thread_it_does_nothing():
    def use() -> None:
        with CtrlC():
            pass

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
