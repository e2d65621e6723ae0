"""A process that forks and is killed: its children keep nothing of it that the next process needs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kstreams_assign.errors import StateDirectoryLocked
from kstreams_assign.sidecar.address import listen, read_address
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.forking import _open
from kstreams_assign.state.lock import holder, take_lock

FORKING = """
import multiprocessing, sys, threading, time
from pathlib import Path
from kstreams_assign.model import HostInfo
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.status.server import StatusServer
from kstreams_assign.sidecar.address import listen, read_address

folder = Path(sys.argv[1])
directory = StateDirectory(folder, "app", clock_ms=lambda: 0)
unix = listen(read_address(f"{folder}.sock"))
http = StatusServer(HostInfo("127.0.0.1", 0))

def child():
    print("child", multiprocessing.current_process().pid, http.address.port, flush=True)
    threading.Event().wait()

multiprocessing.get_context("fork").Process(target=child).start()
threading.Event().wait()
"""


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[Callable[[], tuple[int, int]]]:
    """Start a process that forks, and kill it alone; returns the child's id and the port it listened on."""
    started: list[int] = []

    def start() -> tuple[int, int]:
        command = [sys.executable, "-c", FORKING, str(tmp_path / "state")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            _, child, port = parent.stdout.readline().split()
            started.append(int(child))
            with pytest.raises(StateDirectoryLocked, match=f"process {parent.pid}"):
                StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0)
            parent.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
            parent.stdout.close()
        return int(child), int(port)

    yield start
    for child in started:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_child_of_a_killed_process_keeps_neither_its_directory_nor_its_sockets(
    orphan: Callable[[], tuple[int, int]], tmp_path: Path
) -> None:
    child, port = orphan()
    os.kill(child, 0)  # it lives
    assert holder(tmp_path / "state" / "app") is None
    directory = StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0)
    assert holder(tmp_path / "state" / "app").pid == os.getpid()
    directory.close()
    listen(read_address(f"{tmp_path / 'state'}.sock")).close()
    with socket.create_server(("127.0.0.1", port)):
        os.kill(child, 0)


def test_a_childs_close_leaves_the_parents_lock_alone(tmp_path: Path) -> None:
    with take_lock(tmp_path):
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert holder(tmp_path).pid == os.getpid()
    assert holder(tmp_path) is None


def test_a_child_may_lock_a_directory_of_its_own(tmp_path: Path) -> None:
    with take_lock(tmp_path):
        child = os.fork()
        if not child:
            (tmp_path / "own").mkdir()
            with suppress(BaseException), take_lock(tmp_path / "own"):
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_is_closed_is_not_remembered(tmp_path: Path) -> None:
    before = len(_open)
    for _ in range(100):
        take_lock(tmp_path).close()
        holder(tmp_path)
    assert len(_open) <= before + 1
