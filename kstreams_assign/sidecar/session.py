"""One connection as a machine without a socket: bytes and news in, actions out.

What lives here: which request is allowed when, what ends a connection, how errors are answered. What must not: sockets,
what an op does. ``TRANSITIONS`` is every move there is; a shell feeds ``receive`` and carries the actions out in order.

The idea: a session may end at any moment and in any way, so everything it leaves behind is one action, ``RollBack``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kstreams_assign.errors import MalformedFrame, SidecarRefused
from kstreams_assign.sidecar.messages import (
    GREETING_BYTES_MAX,
    Request,
    read_request,
    refused,
    request_id,
)
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, Frames, Message

OUTSTANDING_MAX = 32
"""Requests of one session that wait for their answers; what is sent beyond them is not read.

Nor is what is sent while those that wait have ``FRAME_BYTES_MAX`` bytes or more together.
"""


class State(Enum):
    NEW = "new"  # connected, hello has not been said
    OPEN = "open"
    CLOSING = "closing"  # close was asked for, or the worker ends: answers are still due, no request is taken
    CLOSED = "closed"  # nothing is read or sent any more


class News(Enum):
    """What can happen to a connection."""

    HELLO = "hello"
    HELLO_REFUSED = "hello refused"  # busy, no token, another version
    WORK = "work"  # any other op but close
    CLOSE = "close"
    WRONG = "wrong request"  # a frame that is no request
    MALFORMED = "malformed"  # no frame at all
    ANSWERED = "all answered"
    STOPPING = "worker stops"
    SILENT = "silent"  # it sends nothing, and nothing is left to answer
    GONE = "gone"  # hung up, or broken


class Step(Enum):
    """What is done for a move, in order."""

    WELCOME = "welcome"
    DO = "do"  # hand the request to the handler
    REFUSE = "refuse"  # answer with the error at hand
    REFUSE_EARLY = "refuse: hello first"
    REFUSE_TWICE = "refuse: hello twice"
    REFUSE_LATE = "refuse: closing"
    AGREE = "agree"  # to a close with nothing to end
    ROLL_BACK = "roll back"
    HANG_UP = "hang up"


_S, _N, _D = State, News, Step
TRANSITIONS: Mapping[tuple[State, News], tuple[State, tuple[Step, ...]]] = {
    (_S.NEW, _N.HELLO): (_S.OPEN, (_D.WELCOME,)),
    (_S.NEW, _N.HELLO_REFUSED): (_S.CLOSED, (_D.REFUSE, _D.HANG_UP)),
    (_S.NEW, _N.WORK): (_S.NEW, (_D.REFUSE_EARLY,)),
    (_S.NEW, _N.CLOSE): (_S.CLOSED, (_D.AGREE, _D.HANG_UP)),
    (_S.NEW, _N.WRONG): (_S.NEW, (_D.REFUSE,)),
    (_S.NEW, _N.MALFORMED): (_S.CLOSED, (_D.REFUSE, _D.HANG_UP)),
    (_S.NEW, _N.ANSWERED): (_S.NEW, ()),
    (_S.NEW, _N.STOPPING): (_S.CLOSED, (_D.HANG_UP,)),
    (_S.NEW, _N.SILENT): (_S.CLOSED, (_D.HANG_UP,)),
    (_S.NEW, _N.GONE): (_S.CLOSED, (_D.HANG_UP,)),
    (_S.OPEN, _N.HELLO): (_S.OPEN, (_D.REFUSE_TWICE,)),
    (_S.OPEN, _N.HELLO_REFUSED): (_S.OPEN, (_D.REFUSE_TWICE,)),
    (_S.OPEN, _N.WORK): (_S.OPEN, (_D.DO,)),
    (_S.OPEN, _N.CLOSE): (_S.CLOSING, (_D.DO,)),
    (_S.OPEN, _N.WRONG): (_S.OPEN, (_D.REFUSE,)),
    (_S.OPEN, _N.MALFORMED): (_S.CLOSED, (_D.REFUSE, _D.ROLL_BACK, _D.HANG_UP)),
    (_S.OPEN, _N.ANSWERED): (_S.OPEN, ()),
    (_S.OPEN, _N.STOPPING): (_S.CLOSING, ()),
    (_S.OPEN, _N.SILENT): (_S.CLOSED, (_D.REFUSE, _D.ROLL_BACK, _D.HANG_UP)),
    (_S.OPEN, _N.GONE): (_S.CLOSED, (_D.ROLL_BACK, _D.HANG_UP)),
    (_S.CLOSING, _N.HELLO): (_S.CLOSING, (_D.REFUSE_LATE,)),
    (_S.CLOSING, _N.HELLO_REFUSED): (_S.CLOSING, (_D.REFUSE_LATE,)),
    (_S.CLOSING, _N.WORK): (_S.CLOSING, (_D.REFUSE_LATE,)),
    (_S.CLOSING, _N.CLOSE): (_S.CLOSING, (_D.REFUSE_LATE,)),
    (_S.CLOSING, _N.WRONG): (_S.CLOSING, (_D.REFUSE,)),
    (_S.CLOSING, _N.MALFORMED): (_S.CLOSED, (_D.REFUSE, _D.ROLL_BACK, _D.HANG_UP)),
    (_S.CLOSING, _N.ANSWERED): (_S.CLOSED, (_D.ROLL_BACK, _D.HANG_UP)),
    (_S.CLOSING, _N.STOPPING): (_S.CLOSING, ()),
    (_S.CLOSING, _N.SILENT): (_S.CLOSED, (_D.REFUSE, _D.ROLL_BACK, _D.HANG_UP)),
    (_S.CLOSING, _N.GONE): (_S.CLOSED, (_D.ROLL_BACK, _D.HANG_UP)),
    **{(_S.CLOSED, news): (_S.CLOSED, ()) for news in News},
}
"""(state, news) -> (next state, steps): complete, so nothing that a peer does is impossible."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message, or the frame of one."""

    message: Message | bytes


@dataclass(frozen=True, slots=True)
class Opened:
    """The session is open: what happens to the tasks may be pushed to it."""


@dataclass(frozen=True, slots=True)
class Do:
    """Have a request done, and report its answer with ``answered``."""

    request: Request


@dataclass(frozen=True, slots=True)
class RollBack:
    """Forget what the session has not committed, and whatever of it is still asked for."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection once everything before is sent."""


Action = Send | Opened | Do | RollBack | HangUp

Greeting = Callable[[Request], Mapping[str, Any]]
"""Says what a hello is answered with; raises ``SidecarRefused`` for whom it does not let in."""


class Session:
    """The machine. ``greet`` is asked at the first hello, and no more."""

    def __init__(self, greet: Greeting) -> None:
        self.state = State.NEW
        self.stalled = False
        """The peer does not read what is sent, so no request of it is taken."""
        self._greet = greet
        self._frames = Frames(GREETING_BYTES_MAX)
        self._outstanding: dict[int, int] = {}
        """By the number of a request, how many bytes had come when it was read; nearly the size of its frame."""
        self._come_bytes = self._request_bytes = 0
        self._number: int | None = None
        self._refusal = refused("closing", "the session is ending")
        self._welcome: Mapping[str, Any] = {}
        self._request: Request | None = None

    @property
    def satiated(self) -> bool:
        """So much is unanswered or unread that nothing more should be read."""
        waiting = self._outstanding
        return self.stalled or len(waiting) >= OUTSTANDING_MAX or sum(waiting.values()) >= FRAME_BYTES_MAX

    @property
    def waits(self) -> bool:
        """It is the peer's turn: every request has its answer, or the peer has to read first."""
        return self.stalled or not self._outstanding

    def receive(self, data: bytes) -> list[Action]:
        """Bytes have come; also called without any, to go on with what came earlier."""
        self._frames.feed(data)
        self._come_bytes += len(data)
        actions: list[Action] = []
        while self.state is not State.CLOSED and not self.satiated:
            news = self._next()
            if news is None:
                break
            actions += self._move(news)
        return actions

    def answered(self, number: int, message: Message | bytes) -> list[Action]:
        """A request that was to be done has its answer."""
        if self.state is State.CLOSED:
            return []
        self._outstanding.pop(number, None)
        return [Send(message), *self._ended(), *self.receive(b"")]

    def stop(self) -> list[Action]:
        """The worker ends: what is asked for is still answered."""
        return [*self._move(News.STOPPING), *self._ended()]

    def silent(self, limit: str) -> list[Action]:
        """The peer has sent nothing for as long as it may (``limit``), though it is its turn."""
        self._number = None
        self._refusal = refused(
            "timed_out", f"no request came for {limit}: what is not committed is read again by the next session"
        )
        return self._move(News.SILENT)

    def gone(self) -> list[Action]:
        """The connection is no more, or is not wanted any more."""
        return self._move(News.GONE)

    def _ended(self) -> list[Action]:
        return [] if self._outstanding else self._move(News.ANSWERED)

    def _next(self) -> News | None:
        """Read one frame; what it is."""
        self._number = None
        try:
            message = self._frames.next()
            if message is None:
                return None
            self._request_bytes, self._come_bytes = self._come_bytes, 0
            self._number = request_id(message)
            self._request = request = read_request(message)
            if request.id in self._outstanding:
                raise refused("bad_request", f"id = {request.id}: a request of that id is not answered yet")
        except MalformedFrame as cause:
            self._refusal = refused("malformed", str(cause))
            return News.MALFORMED
        except SidecarRefused as cause:
            self._refusal = refused(cause.code, cause.text)  # the caught error keeps the whole message alive
            return News.WRONG
        if request.op == "hello":
            return self._hello(request)
        return News.CLOSE if request.op == "close" else News.WORK

    def _hello(self, request: Request) -> News:
        if self.state is not State.NEW:
            return News.HELLO
        try:
            self._welcome = self._greet(request)
        except SidecarRefused as cause:
            self._refusal = cause
            return News.HELLO_REFUSED
        return News.HELLO

    def _move(self, news: News) -> list[Action]:
        self.state, steps = TRANSITIONS[self.state, news]
        return [action for step in steps for action in self._act(step)]

    def _act(self, step: Step) -> list[Action]:
        if step is Step.WELCOME:
            self._frames.bytes_max = FRAME_BYTES_MAX
            return [Send({"id": self._number, "ok": self._welcome}), Opened()]
        if step is Step.DO:
            assert self._request is not None
            self._outstanding[self._request.id] = self._request_bytes
            return [Do(self._request)]
        if step is Step.AGREE:
            return [Send({"id": self._number, "ok": True})]
        if step is Step.ROLL_BACK:
            return [RollBack()]
        if step is Step.HANG_UP:
            return [HangUp()]
        return [Send(error_reply(self._number, _STANDING.get(step, self._refusal)))]


_STANDING = {
    Step.REFUSE_EARLY: refused("hello_first", "say hello before anything else"),
    Step.REFUSE_TWICE: refused("hello_twice", "the session is open already"),
    Step.REFUSE_LATE: refused("closing", "the session is ending"),
}


def error_reply(number: int | None, error: SidecarRefused) -> Message:
    """The answer that a request was refused; the id is nil where none could be read."""
    return {"id": number, "error": {"code": error.code, "message": error.text}}
