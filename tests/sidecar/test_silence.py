"""An application that hangs: its session ends, and another may come."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kstreams_assign.errors import SidecarDisconnected
from kstreams_assign.sidecar import server as server_module
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.server import Server
from kstreams_assign.wire.framing import VERSION, Frames, Message, frame
from tests.sidecar.test_giving_up import PATIENCE_S, Work
from tests.worker.app import until

SILENCE_MAX_MS = 300


class Peer:
    """An application that sends bytes and reads what comes."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(address)
        self.send({"id": 1, "op": "hello", "version": VERSION})
        assert "ok" in self.read()[0]

    def send(self, message: Message) -> None:
        self.socket.sendall(frame(message))

    def read(self, *, to_end: bool = False) -> list[Message]:
        """Return the messages of what comes next; or all until the worker hangs up."""
        frames, messages = Frames(1 << 20), []
        while data := self.socket.recv(1 << 16):
            frames.feed(data)
            while (message := frames.next()) is not None:
                messages.append(message)
            if not to_end:
                break
        return messages


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def server(tmp_path: Path, work: Work) -> Iterator[Server]:
    made = Server(UnixAddress(tmp_path / "a.sock"), None, work, SILENCE_MAX_MS)
    made.start({}, lambda: None)
    yield made
    made.stop()


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], Peer]]:
    with ExitStack() as at_end:

        def connected() -> Peer:
            peer = Peer(server.address)
            at_end.callback(peer.socket.close)
            return peer

        yield connected


@pytest.mark.parametrize(
    "sent",
    [b"", frame({"id": 2, "op": "tasks"})[:9], frame({"id": 2, "op": "tasks"})],
    ids=["nothing", "half a request", "a request"],
)
def test_a_session_that_sends_nothing_more_ends_and_another_may_come(
    server: Server, work: Work, connect: Callable[[], Peer], caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    hanging = connect()
    hanging.socket.sendall(sent)
    last = hanging.read(to_end=True)[-1]
    assert (last["id"], last["error"]["code"]) == (None, "timed_out")
    assert f"max_poll_interval_ms = {SILENCE_MAX_MS}" in last["error"]["message"]
    assert work.left.wait(PATIENCE_S), "what it did not commit is dropped"
    assert "seems to hang" in caplog.text
    with SidecarClient(server.address, timeout_s=PATIENCE_S) as session:
        assert session.commit() == 7


def test_a_peer_that_does_not_read_is_cut_off(work: Work, connect: Callable[[], Peer]) -> None:
    stuck = connect()
    stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    number, room = 1, True
    while room:  # until what the worker answers is read no more, and so it reads no more
        number += 1
        try:
            stuck.socket.settimeout(0.2)
            stuck.send({"id": number, "op": "tasks"})
        except TimeoutError:
            room = False
    assert work.left.wait(PATIENCE_S)
    stuck.socket.settimeout(PATIENCE_S)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        stuck.socket.sendall(bytes(1 << 20))


def test_sessions_that_have_ended_are_forgotten(server: Server) -> None:
    for _ in range(20):
        with SidecarClient(server.address, timeout_s=PATIENCE_S) as session:
            assert session.commit() == 7

    def known() -> int:
        gc.collect()
        connections = (each for each in gc.get_objects() if isinstance(each, server_module._Connection))
        return sum(each._server is server for each in connections)

    until(lambda: known() == 0)


def test_a_session_whose_poll_waits_may_be_silent(work: Work, connect: Callable[[], Peer]) -> None:
    waiting, poll = connect(), {"id": 2, "op": "poll"}
    waiting.send(poll)
    assert work.polled.wait(PATIENCE_S)
    waiting.socket.settimeout(3 * SILENCE_MAX_MS / 1000)
    with pytest.raises(TimeoutError):
        waiting.read()
    waiting.send({"id": 3, "op": "tasks"})
    assert waiting.read()[-1]["ok"] == 7


def test_a_session_that_sends_something_now_and_then_goes_on(work: Work, connect: Callable[[], Peer]) -> None:
    slow = connect()
    for number in range(2, 8):
        assert not work.left.wait(SILENCE_MAX_MS / 3000), "it pauses for a third of what is allowed"
        slow.send({"id": number, "op": "tasks"})
        assert slow.read()[-1]["id"] == number


def test_a_client_learns_why_its_session_has_ended(server: Server, work: Work) -> None:
    with SidecarClient(server.address, timeout_s=PATIENCE_S) as session:
        assert session.commit() == 7
        assert work.left.wait(PATIENCE_S)
        with pytest.raises(SidecarDisconnected, match="no request came for max_poll_interval_ms"):
            session.commit()
