"""The socket of a server: whose file it is, and accepts that fail for a while."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.sidecar import server as server_module
from kstreams_assign.sidecar.address import UnixAddress, listen
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.query_requests import Port
from kstreams_assign.sidecar.server import Server
from tests.sidecar.test_giving_up import PATIENCE_S, Work


class Successor(Work):
    """Starts another server at the path when the session ends: the first server is stopping by then."""

    def __init__(self, make: Callable[[], Server]) -> None:
        super().__init__()
        self._make = make
        self.servers: list[Server] = []

    def leave(self, port: Port) -> None:
        self.servers.append(self._make())
        super().leave(port)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[Work], Server]]:
    """Start servers at one path; stop them at the end."""
    with ExitStack() as at_end:

        def start(work: Work) -> Server:
            server = Server(UnixAddress(tmp_path / "a.sock"), None, work)
            at_end.callback(server.stop)
            server.start({}, lambda: None)
            return server

        yield start


def commit(folder: Path) -> object:
    with SidecarClient(str(folder / "a.sock"), timeout_s=PATIENCE_S) as session:
        return session.commit()


def leave_stale_file(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(folder / "a.sock"))


# --- the file ----------------------------------------------------------------------------------------------


def test_a_server_that_stops_leaves_the_file_of_its_successor(tmp_path: Path, make: Callable[[Work], Server]) -> None:
    work = Successor(lambda: make(Work()))
    first = make(work)
    with SidecarClient(first.address, timeout_s=PATIENCE_S) as session:
        assert session.commit() == 7
        first.stop()
    assert len(work.servers) == 1
    assert commit(tmp_path) == 7
    work.servers[0].stop()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_stops_leaves_a_file_that_took_the_place_of_its_own(
    tmp_path: Path, make: Callable[[Work], Server]
) -> None:
    first = make(Work())
    (tmp_path / "a.sock").unlink()
    second = make(Work())
    first.stop()
    assert commit(tmp_path) == 7
    second.stop()
    first.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_never_started_removes_its_file(tmp_path: Path) -> None:
    Server(UnixAddress(tmp_path / "a.sock"), None, Work()).stop()
    assert list(tmp_path.iterdir()) == []


def test_a_server_starts_at_the_file_of_a_killed_one(tmp_path: Path, make: Callable[[Work], Server]) -> None:
    leave_stale_file(tmp_path)
    make(Work())
    assert commit(tmp_path) == 7


@pytest.mark.parametrize("when", ["before the probe", "after the probe"])
def test_a_file_that_goes_while_a_server_looks_at_it_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its server has just stopped."""
    leave_stale_file(tmp_path)
    connect = socket.socket.connect_ex

    def probe(self: socket.socket, path: str) -> int:
        if when == "before the probe":
            Path(path).unlink()
            return connect(self, path)
        answer = connect(self, path)
        Path(path).unlink()
        return answer

    monkeypatch.setattr(socket.socket, "connect_ex", probe)
    listen(UnixAddress(tmp_path / "a.sock")).close()


# --- accepts that fail -------------------------------------------------------------------------------------


class Scarcity:
    """``socket.accept`` that fails ``failures`` times before it works again; ``met``: it has failed so often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, failures: int) -> None:
        self._number = number
        self._left = failures
        self.met = threading.Event()
        accept = socket.socket.accept

        def accept_or_fail(listener: socket.socket) -> tuple[socket.socket, Any]:
            self._fail()
            return accept(listener)

        monkeypatch.setattr(server_module, "ACCEPT_AGAIN_S", 0.001)
        monkeypatch.setattr(socket.socket, "accept", accept_or_fail)

    def _fail(self) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self.met.set()
            raise OSError(self._number, os.strerror(self._number))


def warning(path: Path, number: int) -> str:
    reason = os.strerror(number)
    return f"The socket {path} accepts no connection: {reason}. The worker goes on, and tries until it succeeds."


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED])
def test_a_server_goes_on_after_accepts_that_fail(
    tmp_path: Path,
    make: Callable[[Work], Server],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    scarcity = Scarcity(monkeypatch, number, failures=3)
    server = make(Work())
    assert commit(tmp_path) == 7
    assert scarcity.met.is_set()
    server.stop()
    assert server.failure is None
    [line] = [record for record in caplog.records if record.name == server_module.__name__]
    assert line.levelno == logging.WARNING
    assert line.getMessage() == warning(tmp_path / "a.sock", number)


def test_a_server_can_be_stopped_while_accepts_fail(
    tmp_path: Path, make: Callable[[Work], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    scarcity = Scarcity(monkeypatch, errno.EMFILE, failures=1)
    monkeypatch.setattr(server_module, "ACCEPT_AGAIN_S", 3_600)
    server = make(Work())
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(server.address)
        assert scarcity.met.wait(PATIENCE_S)
        server.stop()
        with pytest.raises(ConnectionResetError):
            waiting.recv(1)
    assert server.failure is None
    assert list(tmp_path.iterdir()) == []


STARVING = """
import logging, os, resource, socket, sys, threading
from pathlib import Path
from kstreams_assign.sidecar import server as room
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, Frames, frame
from tests.sidecar.test_giving_up import PATIENCE_S, Work

class Lines(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        logged.set()

logged = threading.Event()
logging.getLogger("kstreams_assign").addHandler(Lines())
room.ACCEPT_AGAIN_S = 0.01
server = room.Server(UnixAddress(Path(sys.argv[1])), None, Work())
client = socket.socket(socket.AF_UNIX)
client.settimeout(PATIENCE_S)
os.close(free := os.dup(0))
allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, allowed[1]))
server.start({}, lambda: print("failed", flush=True))
client.connect(sys.argv[1])
client.sendall(frame({"id": 1, "op": "hello", "version": VERSION}))
logged.wait(PATIENCE_S)
resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
frames = Frames(FRAME_BYTES_MAX)
while (answer := frames.next()) is None:
    frames.feed(client.recv(1000))
print(answer["ok"], flush=True)
client.close()
server.stop()
print(server.failure, flush=True)
"""


def test_a_server_starts_and_goes_on_in_a_process_without_free_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    command = [sys.executable, "-c", STARVING, str(path)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )
    line = warning(path, errno.EMFILE)
    assert (ended.stdout.splitlines(), ended.returncode) == ([line, "{'version': 1}", "None"], 0), ended.stderr
