"""Hostile frames for a sidecar: ``python -m tests.sidecar.fuzz --count 1000000 [--seed 7] [--socket app.sock]``.

Without ``--socket`` they go to a session's machine in this process, which has to keep its promises; with it to a
running worker, which has to answer a well-behaved session afterwards. Prints one JSON line; exit 1 on a violation.
"""

from __future__ import annotations

import argparse
import json
import random
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.messages import ERROR_CODES, PROTOCOL
from kstreams_assign.sidecar.session import Do, HangUp, Opened, RollBack, Send, Session, State
from kstreams_assign.wire.framing import VERSION, Frames, frame

SELDOM = ("hello", "commit", "close", "drop")
LEAVE = ("drain", "restart")
"""Never sent: a worker leaves when any session asks for it."""
OFTEN = tuple(op for op in PROTOCOL["ops"] if op not in (*SELDOM, *LEAVE))


class Hostile:
    """Frames from a seed: broken ones, strange ones, and well-formed ones that make no sense."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kinds: tuple[Callable[[], bytes], ...] = (
            *(self._strange_request,) * 40,
            *(self._nonsense,) * 20,
            self._noise,
            self._noise_in_a_frame,
            self._flipped,
            self._cut,
            self._deep,
            self._length,
        )

    def frames(self) -> Iterator[tuple[bytes, bool]]:
        """Yield frames, and whether the peer hangs up after each: after most noise the worker reads nothing more."""
        patient = (self._strange_request, self._nonsense, self._flipped)
        while True:
            kind = self._random.choice(self._kinds)
            yield kind(), kind not in patient or self._random.random() < 0.002

    def hello(self) -> bytes:
        return frame({"id": 0, "op": "hello", "version": VERSION})

    def cuts(self, stream: bytes) -> list[bytes]:
        """Cut the stream into pieces of any size."""
        places = sorted(self._random.randrange(len(stream) + 1) for _ in range(self._random.randrange(4)))
        return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]

    def _value(self, depth: int = 2) -> Any:
        r = self._random
        plain: list[Callable[[], Any]] = [
            lambda: None,
            lambda: r.random() < 0.5,
            lambda: r.choice((-1, 0, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1)),
            lambda: r.random() * 1e300,
            lambda: r.choice(("", "0_0", "0_1", "9_9", "totals", "orders-0", "\x00", "x" * 300, "é" * 9)),
            lambda: r.randbytes(r.randrange(12)),
            lambda: msgpack.ExtType(r.randrange(128), r.randbytes(3)),
        ]
        if depth:
            plain += [
                lambda: [self._value(depth - 1) for _ in range(r.randrange(5))],
                lambda: {self._key(): self._value(depth - 1) for _ in range(r.randrange(4))},
            ]
        return r.choice(plain)()

    def _key(self) -> Any:
        return self._random.choice(("id", "op", "task", "keys", "topic", "key", "value", "", 7, b"k"))

    def _strange_request(self) -> bytes:
        """Return a request with a field or two of another type, too many, or too few."""
        r = self._random
        message = self._request()
        for _ in range(r.randrange(1, 3)):
            name = r.choice([*message, "more", "id"])
            if r.random() < 0.3:
                message.pop(name, None)
            else:
                message[name] = self._value()
        return self._framed(message)

    def _nonsense(self) -> bytes:
        return self._framed(self._request())

    def _request(self) -> dict[Any, Any]:
        r = self._random
        op = r.choice(SELDOM) if r.random() < 0.02 else r.choice(OFTEN)
        message: dict[Any, Any] = {"id": r.randrange(2**40), "op": op}
        for name, spec in PROTOCOL["ops"].get(op, {"fields": {}})["fields"].items():
            if r.random() < 0.9:
                message[name] = self._good(spec)
        return message

    def _good(self, spec: dict[str, Any]) -> Any:
        r = self._random
        lots = [r.randbytes(r.randrange(8)) for _ in range(r.randrange(20))]
        return {
            "integer": lambda: r.choice((spec.get("least", 0), min(spec.get("most", 9), 50))),
            "integers": lambda: r.choice((None, None, None, [7] * r.randrange(20))),
            "boolean": lambda: r.random() < 0.5,
            "text": lambda: r.choice(("totals", "out", "nowhere")),
            "timer_name": lambda: r.choice(("", "reminder")),
            "task": lambda: r.choice(("0_0", "0_1", "3_3")),
            "bytes": lambda: r.randbytes(3),
            "bytes_list": lambda: lots,
            "nullable_bytes_list": lambda: [*lots, None],
            "entries": lambda: [[key, b"v"] for key in lots],
            "records": lambda: [{"topic": "out", "key": key, "value": None} for key in lots],
            "input_record": lambda: {
                "topic": r.choice(("orders", "x")),
                "partition": r.randrange(2),
                "offset": r.randrange(30),
                "timestamp_ms": 7,
                "key": None,
                "value": r.randbytes(3),
                "headers": None,
            },
            "long_text": lambda: r.choice(("ValueError: bad", "")),
            "offsets": lambda: {r.choice(("orders-0", "orders-1", "x-7")): r.choice((0, 1, 2**62))},
        }[spec["type"]]()

    def _framed(self, message: dict[Any, Any]) -> bytes:
        packed = msgpack.packb(message)
        return struct.pack(">I", len(packed)) + packed

    def _noise(self) -> bytes:
        return self._random.randbytes(self._random.randrange(1, 40))

    def _noise_in_a_frame(self) -> bytes:
        noise = self._noise()
        return struct.pack(">I", len(noise)) + noise

    def _flipped(self) -> bytes:
        packed = bytearray(self._nonsense())
        packed[self._random.randrange(4, len(packed))] ^= 1 << self._random.randrange(8)
        return bytes(packed)

    def _cut(self) -> bytes:
        packed = self._nonsense()[4:]
        return struct.pack(">I", max(1, len(packed) - 1)) + packed[:-1]

    def _deep(self) -> bytes:
        packed = self._random.choice((b"\x91", b"\x81\xa1k")) * self._random.randrange(1, 3_000) + b"\xc0"
        return struct.pack(">I", len(packed)) + packed

    def _length(self) -> bytes:
        return struct.pack(">I", self._random.choice((0, 2**24 + 1, 2**32 - 1, 2**31)))


class Machine:
    """The session's machine in this process; each request that it accepts is answered at once."""

    def __init__(self, hostile: Hostile) -> None:
        self._hostile = hostile
        self.codes: Counter[str] = Counter()
        self.sessions = 0
        self._begin()

    def _begin(self) -> None:
        self._session = Session(lambda _: {})
        self._seen: Counter[type] = Counter()
        self.sessions += 1
        self._act(self._session.receive(self._hostile.hello()))

    def send(self, stream: bytes, leave: bool) -> None:
        for piece in self._hostile.cuts(stream):
            self._act(self._session.receive(piece))
        if leave:
            self._act(self._session.gone())
        if self._session.state is State.CLOSED:
            assert self._seen[HangUp] == self._seen[RollBack] == self._seen[Opened] == 1, self._seen
            self._begin()

    def _act(self, actions: list[Any]) -> None:
        todo = list(actions)
        while todo:
            action = todo.pop(0)
            assert not self._seen[HangUp], "something is done after the end"
            self._seen[type(action)] += 1
            if isinstance(action, Do):
                todo += self._session.answered(action.request.id, {"id": action.request.id, "ok": 1})
            elif isinstance(action, Send):
                frame(action.message)
                self.codes[_code(action.message)] += 1

    def finish(self) -> None:
        assert self.codes.keys() <= ERROR_CODES | {"ok"}, self.codes


class Wire:
    """A running worker. Its answers are read and counted; a new connection follows each hang-up."""

    def __init__(self, hostile: Hostile, path: str) -> None:
        self._hostile = hostile
        self._path = path
        self.codes: Counter[str] = Counter()
        self.sessions = 0
        self._socket: socket.socket | None = None

    def _begin(self) -> socket.socket:
        self._socket = made = socket.socket(socket.AF_UNIX)
        made.settimeout(100)
        try:
            made.connect(self._path)
            made.sendall(self._hostile.hello())
        except OSError:
            self._end()
            raise
        self._frames = Frames(2**24)
        self.sessions += 1
        return made

    def send(self, stream: bytes, leave: bool) -> None:
        made = self._socket or self._begin()
        try:
            for piece in self._hostile.cuts(stream):
                made.sendall(piece)
            if leave:
                made.shutdown(socket.SHUT_WR)
            self._read(made, None if leave else 0)
        except OSError:
            self._end()

    def _read(self, made: socket.socket, wait_s: float | None) -> None:
        """Read what has come so far; without ``wait_s``, everything until the worker hangs up, which it must."""
        while select.select([made], [], [], wait_s)[0]:
            data = made.recv(1 << 18)
            if not data:
                raise ConnectionResetError
            self._frames.feed(data)
            while (message := self._frames.next()) is not None:
                if "event" not in message:
                    self.codes[_code(message)] += 1

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def finish(self) -> None:
        self._end()
        assert self.codes.keys() <= ERROR_CODES | {"ok"}, self.codes
        polite_session(self._path)


def polite_session(path: str) -> None:
    """Check that the worker still works; the last of the strange sessions may take a moment to end."""
    deadline = time.monotonic() + 100
    while True:
        try:
            with SidecarClient(path, timeout_s=100) as session:
                assert session.tasks(), "the worker has lost its tasks"
                return
        except (SidecarRefused, SidecarDisconnected):
            assert time.monotonic() < deadline


def _code(message: dict[str, Any]) -> str:
    return str(message["error"]["code"]) if "error" in message else "ok"


def run(count: int, seed: int, path: str | None = None) -> dict[str, Any]:
    hostile = Hostile(seed)
    target = Wire(hostile, path) if path else Machine(hostile)
    frames = hostile.frames()
    started = time.monotonic()
    for _ in range(count):  # each is one frame, or bytes that a peer takes for one
        target.send(*next(frames))
    target.finish()
    seconds = round(time.monotonic() - started, 1)
    return {
        "frames": count,
        "seed": seed,
        "sessions": target.sessions,
        "answers": dict(target.codes),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--socket", help="of a running worker")
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    print(json.dumps(run(options.count, options.seed, options.socket)))


if __name__ == "__main__":
    main()
