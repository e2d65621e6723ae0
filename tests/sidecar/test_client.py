"""The clients in Python by themselves: answers to requests sent ahead, and what fits into a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from kstreams_assign.sidecar.client import InputRecord, SidecarClient, rejection, request_frame
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.poll import HEADER_BYTES, ROW_BYTES, room_bytes
from kstreams_assign.sidecar.query_requests import Port
from kstreams_assign.sidecar.server import Server
from kstreams_assign.sidecar.session import error_reply
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, LONG_TEXT_MAX

ANSWERS_WITHIN_S = 30.0
RECORD = InputRecord("0_0", "orders", 0, 7, 1_700_000_000_000, b"k", b"v", None)


class Work:
    """Refuses the first commit, answers the second, and leaves the third without an answer."""

    def __init__(self) -> None:
        self._commits = 0

    def open(self, _port: Port) -> None:
        """Nothing is pushed."""

    def submit(self, port: Port, request: Request) -> None:
        self._commits += 1
        if self._commits == 1:
            port.answer(request.id, error_reply(request.id, refused("commit_failed", "never")))
        elif self._commits == 2:
            port.answer(request.id, {"id": request.id, "ok": 7})

    def go_on(self) -> None:
        """Nothing waits."""

    def leave(self, _port: Port) -> None:
        """Nothing is kept."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SidecarClient]:
    server = Server(UnixAddress(tmp_path / "a.sock"), None, Work())
    server.start({}, lambda: None)
    with SidecarClient(server.address, timeout_s=ANSWERS_WITHIN_S) as session:
        yield session
    server.stop()


def test_the_result_of_a_commit_sent_ahead_can_be_asked_for_again(session: SidecarClient) -> None:
    fails, works, waits = (session.commit_later() for _ in range(3))
    assert [works.result(), works.result()] == [7, 7]
    for _ in range(2):
        with pytest.raises(SidecarRefused, match="commit_failed: never"):
            fails.result()
    session.__exit__(None, None, None)
    for _ in range(2):
        with pytest.raises(SidecarDisconnected, match="closed by this application"):
            waits.result()
    assert works.result() == 7, "the answer outlives the session"


# --- what fits into a request ------------------------------------------------------------------------


class Received:
    """Answers each request with ``{"response": "skip"}``, and keeps the fields of the last one of each op."""

    def __init__(self) -> None:
        self.fields: dict[str, Mapping[str, Any]] = {}

    def open(self, _port: Port) -> None:
        """Nothing is pushed."""

    def submit(self, port: Port, request: Request) -> None:
        self.fields[request.op] = request.fields
        port.answer(request.id, {"id": request.id, "ok": {"response": "skip"} if request.op == "reject" else 1})

    def go_on(self) -> None:
        """Nothing waits."""

    def leave(self, _port: Port) -> None:
        """Nothing is kept."""


def ask_blocking(address: str, *requests: tuple[Any, ...]) -> list[Any]:
    with SidecarClient(address, timeout_s=ANSWERS_WITHIN_S) as session:
        return [_answer(getattr(session, op), arguments) for op, *arguments in requests]


def _answer(ask: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        return ask(*arguments)
    except SidecarRefused as refusal:
        return refusal


def ask_awaiting(address: str, *requests: tuple[Any, ...]) -> list[Any]:
    async def ask() -> list[Any]:
        async with await AsyncSidecarClient.connect(address) as session:
            calls = [getattr(session, op)(*arguments) for op, *arguments in requests]
            return [(await asyncio.gather(call, return_exceptions=True))[0] for call in calls]

    return asyncio.run(asyncio.wait_for(ask(), ANSWERS_WITHIN_S))


each_client = pytest.mark.parametrize("ask", [ask_blocking, ask_awaiting])


@pytest.fixture
def received(tmp_path: Path) -> Iterator[tuple[str, Received]]:
    kept = Received()
    server = Server(UnixAddress(tmp_path / "a.sock"), None, kept)
    server.start({}, lambda: None)
    yield server.address, kept
    server.stop()


@each_client
@pytest.mark.parametrize("error", [ValueError("no customer \ud83d"), "no customer \ud83d"])
def test_a_record_is_rejected_whatever_the_text_of_the_error(
    received: tuple[str, Received], ask: Callable[..., list[Any]], error: ValueError | str
) -> None:
    address, kept = received
    assert ask(address, ("reject", RECORD, error)) == ["skip"]
    assert kept.fields["reject"]["message"] == r"no customer \ud83d"
    assert r"\ud83d" in kept.fields["reject"]["stacktrace"]


@each_client
def test_a_request_that_fits_no_frame_is_refused_and_the_session_goes_on(
    received: tuple[str, Received], ask: Callable[..., list[Any]]
) -> None:
    address, kept = received
    too_large = {b"%d" % number: bytes(FRAME_BYTES_MAX // 16) for number in range(16)}
    refusal, generation = ask(address, ("put", "0_0", "totals", too_large), ("commit",))
    assert refusal.code == "too_large"
    assert "put: a request of 16,777,4" in str(refusal)
    assert "a frame takes at most 16,777,216" in str(refusal)
    assert generation == 1
    assert "put" not in kept.fields


@pytest.mark.parametrize("left", [0, 30, 60, 67, 70, 200])
def test_texts_are_no_longer_than_the_record_leaves_room_for(left: int) -> None:
    room = (
        FRAME_BYTES_MAX - len(request_frame(1, "reject", rejection(RECORD, "", undo=False))) + len(RECORD.value or b"")
    )
    record = RECORD._replace(value=bytes(room - left))
    rejected = rejection(record, "x" * 1_000, undo=False)
    lengths = [len(rejected[name] or "") for name in ("exception", "message", "stacktrace")]
    assert sum(lengths) <= left


@each_client
@pytest.mark.parametrize("headers", [None, [("", None)] * 1_000])
def test_the_largest_record_that_poll_brings_can_be_rejected_with_any_texts(
    received: tuple[str, Received], ask: Callable[..., list[Any]], headers: list[tuple[str, None]] | None
) -> None:
    address, kept = received
    rest = ROW_BYTES + len("0_0") + len("orders") + len(b"k") + len(headers or ()) * HEADER_BYTES
    largest = RECORD._replace(value=bytes(room_bytes(0) - rest), headers=headers)
    error = ValueError("\N{SNOWMAN}" * LONG_TEXT_MAX)
    assert ask(address, ("reject", largest, error)) == ["skip"]
    fields = kept.fields["reject"]
    assert fields["exception"] == "ValueError"
    assert fields["message"].startswith("\N{SNOWMAN}" * 300)
    assert fields["stacktrace"].endswith("\N{SNOWMAN}" * 300 + "\n")


@each_client
def test_texts_have_at_most_the_characters_that_the_protocol_allows(
    received: tuple[str, Received], ask: Callable[..., list[Any]]
) -> None:
    address, kept = received
    assert ask(address, ("reject", RECORD, ValueError("first" + "x" * LONG_TEXT_MAX + "last"))) == ["skip"]
    fields = kept.fields["reject"]
    assert fields["message"] == ("first" + "x" * LONG_TEXT_MAX)[:LONG_TEXT_MAX]
    assert fields["stacktrace"] == ("x" * LONG_TEXT_MAX + "last\n")[-LONG_TEXT_MAX:]
