"""The socket: connections, each with its session machine, and the one that may work.

What lives here: asyncio, in a thread of its own. What must not: what a request means (``session``,
``request_handler``). Bounds: a few connections that have not been let in, a time to say hello, a time without a
request, a number of unanswered requests, a size of unsent replies, and no reading from a peer that does not read.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast

from kstreams_assign.errors import ConfigError, SidecarError
from kstreams_assign.sidecar.address import Address, TcpAddress, listen, read_file_id, remove_file
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.query_requests import Port
from kstreams_assign.sidecar.session import (
    Action,
    Do,
    HangUp,
    Opened,
    RollBack,
    Send,
    Session,
    State,
    error_reply,
)
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, VERSION, Message, frame

HELLO_TIMEOUT_S = 5.0
WAITING_MAX = 16
"""Connections that have not been let in.

Another connection takes the place of the oldest, so silent connections shut no client out.
"""

UNSENT_REPLIES_BYTES = FRAME_BYTES_MAX
"""Beyond so many bytes of replies that wait to be sent, and while the peer does not read, no large reply is made.

So at most these and one more frame wait for a peer that does not read.
"""

UNSENT_BYTES_MAX = 64 << 20
"""Bytes of events that wait for a peer that does not read; beyond them its connection is closed."""

STOP_TIMEOUT_S = 1.0
ACCEPT_AGAIN_S = 1.0
"""How long to wait after an accept that failed, for example as no file descriptor is free."""

_log = logging.getLogger(__name__)


class Work(Protocol):
    """Who carries out the requests of the open session (``request_handler.RequestHandler``)."""

    def open(self, port: Port) -> None: ...

    def submit(self, port: Port, request: Request) -> None: ...

    def go_on(self) -> None: ...

    def leave(self, port: Port) -> None: ...


class Server:
    """Listens from the moment it is made. Raises ``ConfigError`` for an address that cannot be had.

    ``silence_max_ms``: how long the open session may send nothing while nothing is left to answer.
    """

    def __init__(self, address: Address, token: str | None, work: Work, silence_max_ms: int = 300_000) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()  # while descriptors are free
        try:
            self._listener = listen(address)
        except ConfigError:
            self._loop.close()
            raise
        self._file_id = read_file_id(address)
        self._accepts = True
        self._token = token
        self.silence_max_ms = silence_max_ms
        self._welcome: Mapping[str, Any] = {}
        self.work = work
        self._connections: set[_Connection] = set()
        self._waiting: dict[_Connection, None] = {}  # not let in yet, the oldest first
        self._current: _Connection | None = None
        self.failure: BaseException | None = None
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kstreams-sidecar", daemon=True)

    @property
    def address(self) -> str:
        """Where to connect to; with the port that was taken."""
        if isinstance(self._address, TcpAddress):
            return str(self._address._replace(port=self._listener.getsockname()[1]))
        return str(self._address)

    def start(self, welcome: Mapping[str, Any], on_failure: Callable[[], None]) -> None:
        """Accept sessions and send them ``welcome``. A bug in here is kept as ``failure`` and reported."""
        self._welcome, self._on_failure = {**welcome, "version": VERSION}, on_failure
        self._thread.start()

    def stop(self) -> None:
        """Let the address go, send what has been answered, and hang up on everybody."""
        if self._listener.fileno() >= 0:
            remove_file(self._address, self._file_id)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._listener.close()
        self._loop.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(self._failed)
        self._listener.setblocking(False)
        self._await_peers()
        await self._stopping.wait()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        ending = [connection.stopped() for connection in list(self._connections)]
        if ending:
            await asyncio.wait(ending, timeout=STOP_TIMEOUT_S)
        for connection in list(self._connections):
            connection.abort()

    def _await_peers(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept a connection. What lets that fail passes, such as a lack of descriptors, so try again in a while."""
        try:
            peer, _ = self._listener.accept()
        except BlockingIOError:  # the peer has hung up meanwhile
            return
        except OSError as cause:
            if self._accepts:
                text = "The socket %s accepts no connection: %s. The worker goes on, and tries until it succeeds."
                _log.warning(text, self.address, cause.strerror)
            self._accepts = False
            self._loop.remove_reader(self._listener)
            self._loop.call_later(ACCEPT_AGAIN_S, self._await_peers)
            return
        self._accepts = True
        self._loop.create_task(self._loop.connect_accepted_socket(lambda: _Connection(self, self._loop), peer))

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """asyncio would only write a callback's error into a log."""
        self.failure = context.get("exception") or SidecarError(context["message"])
        self._on_failure()

    # --- for connections ------------------------------------------------------------------

    def came(self, connection: _Connection) -> None:
        """Make room for the connection where too many wait to be let in."""
        self._connections.add(connection)
        self._waiting[connection] = None
        if len(self._waiting) > WAITING_MAX:
            next(iter(self._waiting)).abort()

    def greet(self, connection: _Connection, request: Request) -> Mapping[str, Any]:
        """Let a session in. Raises ``SidecarRefused``."""
        version, token = request.fields["version"], request.fields["token"] or ""
        if version != VERSION:
            raise refused("unsupported_version", f"version {version}: this worker speaks version {VERSION}")
        if self._token is not None and not hmac.compare_digest(token.encode(), self._token.encode()):
            raise refused("unauthorized", "the token is missing or wrong")
        if self._current is not None:
            raise refused("busy", "another session is open")
        self._current = connection
        self._waiting.pop(connection, None)
        return self._welcome

    def went(self, connection: _Connection) -> None:
        """The session of a connection is over: another may come."""
        self._waiting.pop(connection, None)
        if self._current is connection:
            self._current = None

    def forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One peer. ``answer``, ``push`` and ``full`` may be called from any thread."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._session = Session(lambda request: server.greet(self, request))
        self._transport: asyncio.Transport
        self._ended = loop.create_future()
        self._unsent_replies_bytes = 0
        self._unsent_replies_lock = threading.Lock()
        self._unread_events_bytes = 0
        self._heard_s = loop.time()
        self._unread_bytes = 0
        """As of ``_heard_s``."""
        self._timer: asyncio.TimerHandle | None = None

    # --- called by the handler -------------------------------------------------------------------

    def answer(self, number: int, message: Message) -> None:
        packed = _fitting(message)
        with self._unsent_replies_lock:
            self._unsent_replies_bytes += len(packed)
        self._later(lambda: self._reply(number, packed))

    @property
    def full(self) -> bool:
        return self._session.stalled or self._unsent_replies_bytes >= UNSENT_REPLIES_BYTES

    def push(self, message: Message) -> None:
        self._later(lambda: self._push(message))

    def _later(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the session
            self._loop.call_soon_threadsafe(work)

    # --- asyncio's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.came(self)
        self._look_in(HELLO_TIMEOUT_S, self._mind_greeting)

    def data_received(self, data: bytes) -> None:
        self._act(self._session.receive(data))

    def eof_received(self) -> bool:
        return False  # a peer that stops sending has left, even if it still reads

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # why does not matter
        self._act(self._session.gone())
        if self._timer is not None:
            self._timer.cancel()  # it would keep the session
        self._server.forget(self)
        if not self._ended.done():
            self._ended.set_result(None)

    def pause_writing(self) -> None:
        self._session.stalled = True
        self._mind_reading()

    def resume_writing(self) -> None:
        self._session.stalled = False
        self._unread_events_bytes = 0
        self._act(self._session.receive(b""))
        self._server.work.go_on()

    def stopped(self) -> asyncio.Future[None]:
        """The worker ends; done when the connection is."""
        self._act(self._session.stop())
        return self._ended

    def abort(self) -> None:
        self._act(self._session.gone())
        self._transport.abort()

    # --- actions -------------------------------------------------------------------------------

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._write(action.message)
            elif isinstance(action, Opened):
                self._server.work.open(self)
                self._mind_silence()
            elif isinstance(action, Do):
                self._server.work.submit(self, action.request)
            elif isinstance(action, RollBack):
                self._server.work.leave(self)
            elif isinstance(action, HangUp):
                self._server.went(self)
                self._transport.close()
        if actions:  # a part of a request brings none
            self._note_life()
        self._mind_reading()

    def _reply(self, number: int, packed: bytes) -> None:
        """Send a reply. It counts until it is sent, so that ``full`` misses none."""
        self._act(self._session.answered(number, packed))
        with self._unsent_replies_lock:
            was_full = self._unsent_replies_bytes >= UNSENT_REPLIES_BYTES
            self._unsent_replies_bytes -= len(packed)
        if was_full:
            self._server.work.go_on()

    def _push(self, message: Message) -> None:
        if self._session.state in (State.OPEN, State.CLOSING):
            packed = _fitting(message)
            self._write(packed)
            if self._session.stalled:
                self._unread_events_bytes += len(packed)
            if self._unread_events_bytes > UNSENT_BYTES_MAX:
                self.abort()

    def _write(self, message: Message | bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(message if isinstance(message, bytes) else _fitting(message))

    def _mind_reading(self) -> None:
        """Read only what can be answered, and only from a peer that reads the answers."""
        if self._transport.is_closing():
            return
        if self._session.satiated:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _look_in(self, seconds: float, look: Callable[[], None]) -> None:
        """Set the connection's one timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, look)

    def _mind_greeting(self) -> None:
        if self._session.state is State.NEW:
            self._act(self._session.gone())

    def _note_life(self) -> None:
        self._heard_s, self._unread_bytes = self._loop.time(), self._transport.get_write_buffer_size()

    def _mind_silence(self) -> None:
        """End a session whose application seems to hang; look again when that may be so at the earliest.

        An application that reads what waits for it is alive, however slowly it reads.
        """
        if self._session.state is State.CLOSED:
            return
        if self._session.stalled and self._transport.get_write_buffer_size() < self._unread_bytes:
            self._note_life()
        limit_s = self._server.silence_max_ms / 1000
        left_s = self._heard_s + limit_s - self._loop.time() if self._session.waits else limit_s
        if left_s > 0:
            self._look_in(left_s, self._mind_silence)
            return
        limit = f"max_poll_interval_ms = {self._server.silence_max_ms}"
        _log.warning("The application sent no request for %s, and seems to hang: its session ends.", limit)
        self._act(self._session.silent(limit))
        self._look_in(STOP_TIMEOUT_S, self._transport.abort)  # it may not read, either


def _fitting(message: Message) -> bytes:
    """The frame of a message, or of an error that says that it does not fit."""
    packed = frame(message)
    if len(packed) <= FRAME_BYTES_MAX:
        return packed
    size = len(packed)
    return frame(error_reply(message["id"], refused("too_large", f"the answer has {size} bytes; ask for less")))
