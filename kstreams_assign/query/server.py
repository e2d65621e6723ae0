"""The query endpoint of a worker: threads that read queries from sockets and write answers.

What lives here: the bounds. A connection has a few seconds to prove itself, and each frame a few seconds to arrive;
one more connection that waits to be let in closes the oldest, so silent connections shut no client out. Of those that
were let in, one more closes the one that has been without a query for the longest time; its client connects again.
``stop`` waits a moment for answers under way. A thread may outlast it, as it reads no store itself (``worker.lookup``).

What must not live here: what a message means (``conversation``), and what the answer is.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from kstreams_assign.adapters.listening import describe_listen_error
from kstreams_assign.errors import ConfigError, MalformedFrame
from kstreams_assign.model import HostInfo
from kstreams_assign.query.conversation import Asked, Conversation, Reply
from kstreams_assign.query.messages import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    IDLE_S,
    NONCE_BYTES,
    Answer,
    Get,
    Reason,
    Refused,
    Unanswered,
    answer_message,
    error_message,
)
from kstreams_assign.state.forking import open_unshared
from kstreams_assign.wire.framing import Frames, Message, frame

CONNECTIONS_MAX = 128
"""Connections of clients that have proved themselves; one more takes the place of one that no query uses."""
ROOM_S = 0.1
"""How long a client waits for such a place before it is turned away: most queries end sooner."""
WAITING_MAX = 16
"""Connections that have not proved themselves yet."""
GREETING_S = 5.0
FRAME_S = 10.0
"""How long a frame may take to arrive once it has begun, and an answer to be taken."""
TURN_S = 0.1
LAST_ANSWERS_S = 1.0
"""How long ``stop`` waits for answers that are under way."""
RECEIVE_BYTES = 1 << 16


class QueryServer:
    """Listens from the moment it is made, answers from ``start`` to ``stop``.

    Raises ``ConfigError`` where it cannot listen.
    """

    def __init__(self, address: HostInfo) -> None:
        try:
            self._server = open_unshared(lambda: _Server(address))
        except OSError as cause:
            reason = describe_listen_error(cause)
            raise ConfigError(f"query = '{address.host}:{address.port}': cannot listen there: {reason}") from cause
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(TURN_S), name="kstreams-query", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self._server.server_address[1])

    def start(
        self,
        application_id: str,
        token: str | None,
        answer: Callable[[Get], Answer],
        on_failure: Callable[[str], None],
    ) -> None:
        """Answer with what ``answer`` returns, which several threads call; report bugs through ``on_failure``."""
        server = self._server
        server.converse = lambda: Conversation(application_id, token, secrets.token_bytes(NONCE_BYTES))
        server.answer, server.on_failure = answer, on_failure
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and let the address go. Answers that take longer than a second are given up."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.hang_up()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True  # one that still waits for its answer holds up neither ``stop`` nor the program's end
    request_queue_size = CONNECTIONS_MAX
    converse: Callable[[], Conversation]
    answer: Callable[[Get], Answer]
    on_failure: Callable[[str], None]

    def __init__(self, address: HostInfo) -> None:
        host = address.host.removeprefix("[").removesuffix("]")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._changed = threading.Condition()
        self._waiting: dict[socket.socket, None] = {}
        self._open: set[socket.socket] = set()
        self._idle: dict[socket.socket, None] = {}
        """Of those that are open: the ones that no query uses, the longest first."""
        super().__init__((host, address.port), _Connection)

    def close(self) -> None:
        """Let go of the address, and nothing else (``state.forking``)."""
        self.socket.close()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # socketserver's signature
        """Make room for the connection where too many wait to be let in."""
        with self._changed:
            self._waiting[request] = None
            oldest = next(iter(self._waiting)) if len(self._waiting) > WAITING_MAX else None
            if oldest is not None:
                del self._waiting[oldest]
        if oldest is not None:
            _end(oldest, socket.SHUT_RDWR)
        return True

    def let_in(self, request: socket.socket) -> bool:
        """Make room for a client that has proved itself; return whether there is any, as all others may be in use."""
        with self._changed:
            has_room = self._changed.wait_for(lambda: len(self._open) < CONNECTIONS_MAX or self._idle, ROOM_S)
            if request not in self._waiting or not has_room:  # it has made room for others that wait
                self._waiting.pop(request, None)
                return False
            del self._waiting[request]
            if len(self._open) >= CONNECTIONS_MAX:
                longest = next(iter(self._idle))
                self._forget(longest)
                _end(longest, socket.SHUT_RDWR)
            self._open.add(request)
            self._idle[request] = None
            return True

    def use(self, request: socket.socket) -> bool:
        """A query has come; return whether the connection is still open, as it may just have made room."""
        with self._changed:
            self._idle.pop(request, None)
            return request in self._open

    def rest(self, request: socket.socket) -> None:
        """The query has its answer."""
        with self._changed:
            self._idle[request] = None
            self._changed.notify_all()

    def _forget(self, request: socket.socket) -> None:
        self._waiting.pop(request, None)
        self._open.discard(request)
        self._idle.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._forget(request)
            self._changed.notify_all()
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Take no more messages, wait a moment for the answers under way, and end what is left.

        The connections' threads wake up with an end or an error, and close them.
        """
        with self._changed:
            for connection in (*self._waiting, *self._open):
                _end(connection, socket.SHUT_RD)
            self._changed.wait_for(lambda: not (self._waiting or self._open), LAST_ANSWERS_S)
            for connection in (*self._waiting, *self._open):
                _end(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # socketserver's signature
        """Ignore a client that hung up or was too slow; report any other error, as it is a bug."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.on_failure(f"{type(error).__name__}: {error}")


def _end(connection: socket.socket, how: int) -> None:
    with suppress(OSError):  # it has just ended by itself
        connection.shutdown(how)


class _Connection(BaseRequestHandler):
    """One client."""

    server: _Server
    request: socket.socket

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = Frames(GREETING_BYTES_MAX)

    def handle(self) -> None:
        conversation = self.server.converse()
        greeted_by_s = time.monotonic() + GREETING_S
        self._send(conversation.opening())
        try:
            while (message := self._receive(None if conversation.is_open else greeted_by_s)) is not None:
                go_on = self._serve if conversation.is_open else self._greet
                if not go_on(conversation, message):
                    return
        except MalformedFrame as cause:
            self._send(error_message(None, "malformed", str(cause)))

    def _greet(self, conversation: Conversation, message: Message) -> bool:
        step = conversation.take(message)
        if conversation.is_open:
            self._frames.bytes_max = FRAME_BYTES_MAX
            if not self.server.let_in(self.request):
                text = f"all {CONNECTIONS_MAX} connections of the process are in use"
                step = Reply(answer_message(message["id"], Unanswered(Reason.NOT_READY, text)), hang_up=True)
        return self._act(step)

    def _serve(self, conversation: Conversation, message: Message) -> bool:
        goes_on = self.server.use(self.request) and self._act(conversation.take(message))
        if goes_on:
            self.server.rest(self.request)
        return goes_on

    def _act(self, step: Reply | Asked) -> bool:
        """Do what follows from a message; return whether the connection goes on."""
        match step:
            case Reply(message, hang_up):
                self._send(message)
                return not hang_up
            case Asked(number, get):
                self._send(answer_message(number, self.server.answer(get)))
                return True

    def _receive(self, deadline_s: float | None) -> Message | None:
        """Return the next message; None where the client has hung up, or was silent for too long."""
        while (message := self._frames.next()) is None:
            if deadline_s is None:
                self.request.settimeout(IDLE_S)
            else:
                self.request.settimeout(max(deadline_s - time.monotonic(), 0.001))
            data = self.request.recv(RECEIVE_BYTES)
            if not data:
                return None
            self._frames.feed(data)
            deadline_s = deadline_s or time.monotonic() + FRAME_S
        return message

    def _send(self, message: Message) -> None:
        packed = frame(message)
        if len(packed) > FRAME_BYTES_MAX:
            text = f"the value does not fit into a frame of {FRAME_BYTES_MAX} bytes"
            packed = frame(answer_message(message["id"], Refused("too_large", text)))
        self.request.settimeout(FRAME_S)
        self.request.sendall(packed)
