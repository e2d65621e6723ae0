"""Requests that are sent together by a peer that reads slowly, or nothing: what is answered and not read is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.sidecar import server as server_module
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.sidecar.server import Server, _Connection
from kstreams_assign.sidecar.session import OUTSTANDING_MAX, State
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, Frames, Message, frame
from tests.sidecar.stand import INPUT, Stand

SILENCE_MAX_S = 300
VALUE = bytes(1_000)
AHEAD = 4
"""So many replies with ``VALUE`` fill ``ENOUGH_BYTES``."""
ENOUGH_BYTES = 3_500
TOGETHER = range(100, 100 + OUTSTANDING_MAX)
RANGE = {"op": "range", "task": "0_0", "store": "totals"}


class Clocked(asyncio.SelectorEventLoop):
    """A loop whose time passes as the test says."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


class Peer(asyncio.Transport):
    """The other side of a connection. ``reads``: all that comes, at once; else it reads when the test says."""

    def __init__(self, connection: _Connection, *, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.replies: list[Message] = []
        self.unread_bytes = 0
        self.ended = False
        self._connection = connection
        self._frames = Frames(FRAME_BYTES_MAX)

    @property
    def answered(self) -> list[int]:
        return [message["id"] for message in self.replies if message["id"] in TOGETHER]

    def ask_together(self, *requests: Message) -> None:
        """Send requests in one piece, with the numbers ``TOGETHER``."""
        asked = zip(TOGETHER, requests, strict=False)
        self._connection.data_received(b"".join(frame({"id": number, **request}) for number, request in asked))

    def ask(self, number: int, **request: object) -> None:
        self._connection.data_received(frame({"id": number, **request}))

    def read(self, size: int | None = None) -> None:
        """Read so many bytes, or all of them."""
        self.unread_bytes = max(0, self.unread_bytes - size) if size else 0
        if not self.unread_bytes:
            self._connection.resume_writing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._frames.feed(bytes(data))
        while (message := self._frames.next()) is not None:
            if "id" in message:
                self.replies.append(message)
        if not self.reads:
            if not self.unread_bytes:
                self._connection.pause_writing()
            self.unread_bytes += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def pause_reading(self) -> None:
        """It sends all at once."""

    def resume_reading(self) -> None:
        """It sends all at once."""

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    abort = close


class Room:
    """A server, and the one peer that is connected to it."""

    def __init__(self, folder: Path, stand: Stand) -> None:
        self.stand = stand
        self.loop = Clocked()
        self.server = Server(UnixAddress(folder / "a.sock"), None, stand.handler, SILENCE_MAX_S * 1000)

    def play(self, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(scene())

    async def connect(self, *, reads: bool) -> Peer:
        self.connection = _Connection(self.server, self.loop)
        peer = Peer(self.connection, reads=True)
        self.connection.connection_made(peer)
        peer.ask(1, op="hello", version=VERSION)
        await self.settle()
        peer.reads = reads
        return peer

    async def settle(self) -> None:
        """Let everything happen that does not wait for the peer or for a time."""
        for _ in range(1_000):
            await asyncio.sleep(0)

    async def let_pass(self, seconds: float) -> None:
        self.loop.now_s += seconds
        await self.settle()


@pytest.fixture
def room(tmp_path: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(server_module, "UNSENT_REPLIES_BYTES", ENOUGH_BYTES)
    stand.ask("put", task="0_0", store="totals", keys=(b"k",), values=(VALUE,))
    made = Room(tmp_path, stand)
    yield made
    made.server.stop()


# --- what is worked on ahead of a peer ------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [RANGE, {**RANGE, "op": "get", "keys": [b"k"]}], ids=["range", "get"])
def test_a_few_large_replies_wait_for_a_peer_and_the_others_are_not_made(room: Room, request_: Message) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=False)
        peer.ask_together(*[request_] * OUTSTANDING_MAX)
        for end in range(AHEAD, OUTSTANDING_MAX + 1, AHEAD):
            await room.settle()
            assert peer.answered == [*TOGETHER][:end]
            peer.read()
        assert all("ok" in reply for reply in peer.replies)

    room.play(scene)


def test_all_requests_are_answered_in_order_to_a_peer_that_reads(room: Room) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=True)
        peer.ask_together(*[RANGE] * OUTSTANDING_MAX)
        await room.settle()
        assert peer.answered == [*TOGETHER]

    room.play(scene)


def test_requests_behind_a_large_one_wait_with_it(room: Room) -> None:
    """They take effect in the order in which they are sent: the last range does not see the delete, the next does."""

    async def scene() -> None:
        peer = await room.connect(reads=False)
        delete = {"op": "delete", "task": "0_0", "store": "totals", "keys": [b"k"]}
        peer.ask_together(*[RANGE] * (AHEAD + 1), delete, RANGE)
        await room.settle()
        assert peer.answered == [*TOGETHER][:AHEAD]
        peer.read()
        await room.settle()
        assert [reply["ok"] for reply in peer.replies[-3:]] == [
            {"entries": ((b"k", VALUE),), "more": False},
            1,
            {"entries": (), "more": False},
        ]

    room.play(scene)


def test_a_few_answers_to_polls_wait_for_a_peer_and_the_other_records_stay(room: Room) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=False)
        peer.ask_together(*[{"op": "poll", "max_records": 1}] * OUTSTANDING_MAX)
        records = [Record("orders", 0, 10 + n, 5, b"k", VALUE) for n in range(OUTSTANDING_MAX)]
        room.stand.handler.work(room.stand.running, INPUT, records)
        room.stand.handler.turn()
        for end in range(AHEAD, OUTSTANDING_MAX + 1, AHEAD):
            await room.settle()
            assert peer.answered == [*TOGETHER][:end]
            peer.read()
            room.stand.handler.turn()
        offsets = [record["offset"] for reply in peer.replies[1:] for record in reply["ok"]["records"]]
        assert offsets == [*range(10, 10 + OUTSTANDING_MAX)]

    room.play(scene)


def test_no_request_is_taken_from_what_has_come_while_a_peer_reads_nothing(room: Room) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=False)
        count = 10 * OUTSTANDING_MAX
        room.connection.data_received(b"".join(frame({"id": 100 + n, "op": "lag"}) for n in range(count)))
        await room.settle()
        assert len(peer.replies) == 1 + OUTSTANDING_MAX + 1, "one is taken before the first reply is sent"
        while peer.unread_bytes:
            peer.read()
            await room.settle()
        assert [reply["id"] for reply in peer.replies[1:]] == [*range(100, 100 + count)]

    room.play(scene)


def test_events_that_a_peer_does_not_read_are_bounded_and_replies_do_not_count(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "UNSENT_BYTES_MAX", 1_000)

    async def scene() -> None:
        peer = await room.connect(reads=False)
        peer.ask_together({"op": "range", "task": "x" * 200}, *[{"op": "lag"}] * (OUTSTANDING_MAX - 1))
        await room.settle()
        peer.unread_bytes += 2_000  # of replies
        for _ in range(3):
            room.connection.push({"event": "lost", "tasks": [], "reason": "x" * 400})
            await room.settle()
            assert not peer.ended
            peer.read()
        for _ in range(3):
            assert not peer.ended
            room.connection.push({"event": "lost", "tasks": [], "reason": "x" * 400})
            await room.settle()
        assert peer.ended

    room.play(scene)


# --- when it is cut off ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [{"op": "lag"}, {"op": "close"}], ids=["open", "closing"])
def test_a_peer_that_reads_slowly_is_served_to_the_end(room: Room, last: Message) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=False)
        peer.ask_together(*[RANGE] * (AHEAD + 1), last)
        await room.settle()
        while peer.unread_bytes:
            await room.let_pass(0.9 * SILENCE_MAX_S)
            peer.read(500)
            await room.settle()
        assert peer.answered == [*TOGETHER][: AHEAD + 2]
        assert all("ok" in reply for reply in peer.replies)

    room.play(scene)


@pytest.mark.parametrize("last", [{"op": "lag"}, {"op": "close"}], ids=["open", "closing"])
def test_a_peer_that_reads_nothing_is_cut_off_although_requests_of_it_wait(room: Room, last: Message) -> None:
    async def scene() -> None:
        peer = await room.connect(reads=False)
        peer.ask_together(*[RANGE] * (AHEAD + 1), last)
        await room.settle()
        await room.let_pass(0.9 * SILENCE_MAX_S)
        assert room.connection._session.state is not State.CLOSED
        await room.let_pass(0.2 * SILENCE_MAX_S)
        assert room.connection._session.state is State.CLOSED
        assert peer.replies[-1]["error"]["code"] == "timed_out"
        again = await room.connect(reads=True)
        assert "ok" in again.replies[0], "another may come"

    room.play(scene)
