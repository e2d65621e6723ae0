"""Clients that give up: a poll without its answer commits nothing unseen, and a cancelled connect blocks no other."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.messages import Request
from kstreams_assign.sidecar.query_requests import Port
from kstreams_assign.sidecar.server import Server
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, Frames, frame

PATIENCE_S = 30.0


class Work:
    """Answers all requests at once but polls, which it never answers."""

    def __init__(self) -> None:
        self.polled, self.left = threading.Event(), threading.Event()
        self.ops: list[str] = []

    def open(self, _port: Port) -> None:
        self.polled.clear()
        self.left.clear()

    def submit(self, port: Port, request: Request) -> None:
        self.ops.append(request.op)
        if request.op == "poll":
            self.polled.set()
        else:
            port.answer(request.id, {"id": request.id, "ok": 7})

    def go_on(self) -> None:
        """Nothing waits."""

    def leave(self, _port: Port) -> None:
        self.left.set()


class Sidecar:
    """A server of such work, which does not serve yet."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "a.sock")
        self.work = Work()
        self.server = Server(UnixAddress(folder / "a.sock"), None, self.work)

    def start(self) -> None:
        self.server.start({}, lambda: None)


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    made = Sidecar(tmp_path)
    yield made
    made.server.stop()


class SilentWorker:
    """Welcomes one session and answers nothing after that. ``reads``: whether it reads what the session sends."""

    def __init__(self, folder: Path, *, reads: bool) -> None:
        self.address = str(folder / "silent.sock")
        self.ended = threading.Event()
        self._stop = threading.Event()
        self._reads = reads
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._listener.settimeout(PATIENCE_S)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        session, _ = self._listener.accept()
        with session:
            frames = Frames(FRAME_BYTES_MAX)
            while (hello := frames.next()) is None:
                frames.feed(session.recv(1 << 16))
            session.sendall(frame({"id": hello["id"], "ok": {}}))
            if not self._reads:
                self._stop.wait()
            while session.recv(1 << 16):
                pass
            self.ended.set()


@contextmanager
def silent_worker(folder: Path, *, reads: bool = True) -> Iterator[SilentWorker]:
    worker = SilentWorker(folder, reads=reads)
    try:
        yield worker
    finally:
        worker.stop()


async def give_up_a_poll(sidecar: Sidecar, session: AsyncSidecarClient) -> None:
    poll = asyncio.ensure_future(session.poll())
    assert await asyncio.to_thread(sidecar.work.polled.wait, PATIENCE_S)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll


@pytest.mark.parametrize("call", ["commit", "poll", "poll_columns", "poll_with_timers"])
def test_a_session_ends_before_it_commits_or_skips_what_a_cancelled_poll_brought(sidecar: Sidecar, call: str) -> None:
    async def application() -> None:
        session = await AsyncSidecarClient.connect(sidecar.address)
        await give_up_a_poll(sidecar, session)
        for _ in range(2):
            with pytest.raises(SidecarDisconnected, match=r"a poll was given up .*: connect again"):
                await getattr(session, call)()

    sidecar.start()
    asyncio.run(application())
    assert sidecar.work.left.wait(PATIENCE_S), "its input is read again"
    assert sidecar.work.ops == ["poll"]


@pytest.mark.parametrize(("waits", "answered"), [(False, False), (False, True), (True, False)])
def test_a_session_ends_before_a_commit_right_behind_a_cancelled_poll(
    sidecar: Sidecar, *, waits: bool, answered: bool
) -> None:
    async def application() -> None:
        session = await AsyncSidecarClient.connect(sidecar.address)
        poll = session.poll()
        reader = asyncio.create_task(asyncio.wait_for(poll, PATIENCE_S) if waits else poll)
        assert await asyncio.to_thread(sidecar.work.polled.wait, PATIENCE_S)
        if answered:  # its task does not know it yet
            session._waiting[session._number].set_result({"records": []})
        reader.cancel()
        with pytest.raises(SidecarDisconnected, match="a poll was given up"):
            await session.commit()

    sidecar.start()
    asyncio.run(application())
    assert sidecar.work.left.wait(PATIENCE_S)
    assert "commit" not in sidecar.work.ops


def test_timers_that_nobody_has_seen_are_not_committed_behind_a_cancelled_poll(sidecar: Sidecar) -> None:
    async def application() -> None:
        session = await AsyncSidecarClient.connect(sidecar.address)
        await give_up_a_poll(sidecar, session)
        with pytest.raises(SidecarDisconnected, match="a poll was given up"):
            await session.commit({"orders-0": 11}, timers=True)

    sidecar.start()
    asyncio.run(application())
    assert sidecar.work.left.wait(PATIENCE_S)
    assert sidecar.work.ops == ["poll"]


def test_offsets_that_are_named_can_be_committed_behind_a_cancelled_poll(sidecar: Sidecar) -> None:
    async def application() -> None:
        session = await AsyncSidecarClient.connect(sidecar.address)
        await give_up_a_poll(sidecar, session)
        assert await session.commit({"orders-0": 11}) == 7
        await session.close()

    sidecar.start()
    asyncio.run(application())
    assert sidecar.work.ops == ["poll", "commit", "close"]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        *((call, {}) for call in ("commit", "commit_later", "poll", "poll_columns", "poll_with_timers")),
        ("commit", {"offsets": {"orders-0": 11}, "timers": True}),
    ],
)
def test_a_poll_that_ctrl_c_ends_is_not_committed(
    sidecar: Sidecar, call: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    sidecar.start()
    with SidecarClient(sidecar.address) as session:
        with monkeypatch.context() as waiting:
            waiting.setattr(session, "_receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.poll()
        for method in (call, call, "tasks"):
            with pytest.raises(SidecarDisconnected, match="a poll was given up"):
                getattr(session, method)(**arguments if method == call else {})
    assert sidecar.work.left.wait(PATIENCE_S)
    assert sidecar.work.ops == ["poll"]


def test_a_session_ends_when_a_poll_is_not_answered_in_time(sidecar: Sidecar) -> None:
    """The worker may answer later and count records as polled, so no method may go on in that session."""
    late = r"within timeout_s = 1 seconds; .*: connect again"
    sidecar.start()
    with SidecarClient(sidecar.address, timeout_s=1.0) as session:
        with pytest.raises(SidecarDisconnected, match=late):
            session.poll()
        for call in ("commit", "commit_later", "poll", "poll_columns", "poll_with_timers", "tasks", "close"):
            with pytest.raises(SidecarDisconnected, match=late):
                getattr(session, call)()
        assert sidecar.work.left.wait(PATIENCE_S), "the worker sees the end while the application keeps the client"
    assert sidecar.work.ops == ["poll"]


def test_a_session_ends_when_a_commit_sent_ahead_is_not_answered_in_time(tmp_path: Path) -> None:
    with silent_worker(tmp_path) as worker, SidecarClient(worker.address, timeout_s=1.0) as session:
        commits = [session.commit_later({"orders-0": offset}) for offset in (11, 12)]
        for commit in commits:
            with pytest.raises(SidecarDisconnected, match="within timeout_s = 1 seconds"):
                commit.result()
        assert worker.ended.wait(PATIENCE_S)


def test_a_session_ends_when_a_request_cannot_be_sent_whole(tmp_path: Path) -> None:
    """The rest of a frame that was cut off would be read from the next request."""
    with silent_worker(tmp_path, reads=False) as worker, SidecarClient(worker.address, timeout_s=1.0) as session:
        for call in (lambda: session.put("0_0", "totals", {b"k": bytes(8 << 20)}), session.tasks):
            with pytest.raises(
                SidecarDisconnected, match=r"put: the connection to the worker is lost: .*connect again"
            ):
                call()


def test_a_session_that_was_closed_says_so(sidecar: Sidecar) -> None:
    sidecar.start()
    with SidecarClient(sidecar.address) as session:
        session.close()
        with pytest.raises(SidecarDisconnected, match="closed by this application"):
            session.tasks()


def test_a_connect_that_is_cancelled_lets_the_next_ones_in(sidecar: Sidecar) -> None:
    """The socket listens before the worker serves it, so the first waits for its answer. The server meets it first."""

    async def connect() -> AsyncSidecarClient:
        deadline = time.monotonic() + 10
        while True:
            try:
                return await AsyncSidecarClient.connect(sidecar.address)
            except SidecarRefused as refused:
                if refused.code != "busy" or time.monotonic() > deadline:
                    raise

    async def application() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncSidecarClient.connect(sidecar.address), 0.3)
        sidecar.start()
        async with await connect() as session:
            assert await session.commit() == 7

    gc.disable()  # it would close a connection that is only forgotten
    try:
        asyncio.run(application())
    finally:
        gc.enable()
