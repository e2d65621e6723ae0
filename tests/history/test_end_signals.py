"""Ctrl-C or SIGTERM at a command that needs Spark: no stack trace, no wait, and no JVM is left, whenever it comes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kstreams_assign.adapters.java import find_java
from kstreams_assign.history.end_signals import EndSignals, ended_by_sigterm
from kstreams_assign.history.session import spark_session
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


@pytest.fixture
def gateway(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[JavaGateway]:  # noqa: ARG001 - there is one
    """A JVM as pyspark starts and calls it, of this test alone."""
    monkeypatch.setenv("JAVA_HOME", str(find_java().parent.parent))
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    gateway = launch_gateway(SparkConf(False), output)
    yield gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.kill()
    gateway.proc.wait(PATIENCE_S)


def test_after_sigterm_no_call_waits_for_the_one_under_way(gateway: JavaGateway):
    """The call fetches a page that never comes."""
    ended, waited = threading.Event(), []

    def be_silent(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            connection.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)
            waited.append(not ended.wait(PATIENCE_S))

    def fetch_page(port: int) -> None:
        with ended_by_sigterm(), EndSignals() as signals:
            signals.ends(gateway.proc)
            try:
                gateway.jvm.java.net.URI(f"http://127.0.0.1:{port}/").toURL().openStream()
            finally:
                with suppress(Py4JError):
                    gateway.jvm.java.lang.System.currentTimeMillis()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=be_silent, args=[server], daemon=True)
        thread.start()
        with pytest.raises(SystemExit):
            fetch_page(server.getsockname()[1])
        ended.set()
        thread.join(PATIENCE_S)
    assert waited == [False]


def test_sigterm_ends_a_start_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Spark fetches jars before its JVM answers."""
    submit, pid = tmp_path / "bin" / "spark-submit", tmp_path / "pid"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\necho $$ > {pid}.part && mv {pid}.part {pid}\nexec sleep 300\n", encoding="utf-8")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    def signal_when_started() -> None:
        until(pid.exists, PATIENCE_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=signal_when_started, daemon=True).start()
    with (
        pytest.raises(SystemExit, match="143"),
        ended_by_sigterm(),
        spark_session(master="local[1]", log=tmp_path / "log"),
    ):
        pytest.fail("Spark has started")
    assert not psutil.pid_exists(int(pid.read_text(encoding="utf-8")))


def test_it_ends_a_jvm_that_is_named_after_it():
    jvm = Jvm()

    def interrupted() -> None:
        with EndSignals() as signals:
            signal.raise_signal(signal.SIGINT)
            signals.ends(jvm)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert jvm.ended == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_that_follows_from_it_is_not_shown():
    def interrupted() -> None:
        with EndSignals():
            signal.raise_signal(signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt) as ended:
        interrupted()
    assert ended.value.__suppress_context__


def test_without_it_an_error_stays():
    with pytest.raises(OSError, match="disk"), EndSignals():
        raise OSError("disk")


def test_a_handler_of_the_program_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with EndSignals() as signals:
        signals.listen()
        signal.raise_signal(signal.SIGINT)
    assert heard == [1]


def test_a_handler_that_the_block_sets_stays():
    heard = []
    with EndSignals():
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    signal.raise_signal(signal.SIGINT)
    assert heard == [1]


def ended_by_sigterm_with(jvm: Jvm, *, raises: bool) -> None:
    with ended_by_sigterm():
        ours = signal.getsignal(signal.SIGTERM)
        try:
            with EndSignals() as signals:
                signals.ends(jvm)
                signal.raise_signal(signal.SIGTERM)
                assert jvm.ended == 1  # and no exception has come out of a call of the JVM
                if raises:
                    raise OSError
        finally:
            assert signal.getsignal(signal.SIGTERM) is ours


@pytest.mark.parametrize("raises", [False, True])
def test_sigterm_ends_the_jvm_and_then_the_block(raises: bool):
    before, jvm = signal.getsignal(signal.SIGTERM), Jvm()
    with pytest.raises(SystemExit) as ended:
        ended_by_sigterm_with(jvm, raises=raises)
    assert ended.value.code == 128 + signal.SIGTERM
    assert ended.value.__suppress_context__
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_of_sigterm_of_the_program_stays(heard_sigterms: list[int]):
    jvm = Jvm()
    with EndSignals() as signals:
        signals.ends(jvm)
        signal.raise_signal(signal.SIGTERM)
    assert (heard_sigterms, jvm.ended) == ([signal.SIGTERM], 0)


def test_a_handler_of_sigterm_that_the_block_sets_stays(heard_sigterms: list[int]):
    programs = signal.getsignal(signal.SIGTERM)
    with ended_by_sigterm():
        with EndSignals():
            signal.signal(signal.SIGTERM, programs)
        signal.raise_signal(signal.SIGTERM)
    assert heard_sigterms == [signal.SIGTERM]


@pytest.fixture
def heard_sigterms() -> Iterator[list[int]]:
    """What a handler hears that the program has set."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    yield heard
    signal.signal(signal.SIGTERM, before)


def test_in_another_thread_it_does_nothing():
    def use() -> None:
        with EndSignals():
            pass

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
