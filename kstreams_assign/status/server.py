"""The HTTP server: a thread that answers GET and HEAD, and ends with the worker.

What lives here: ``http.server`` under bounds, and which path answers what. What must not: what is answered (``values``,
``metrics``, ``page``). The bounds: a few connections at a time, one short request on each, and an end to each after a
while, however slowly the other side sends or reads. On loopback only names of loopback are answered to, so that no page
of a browser can reach in under a name of its own (DNS rebinding).
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from socketserver import ThreadingTCPServer
from typing import Any, NamedTuple, Protocol, cast

from kstreams_assign.adapters.listening import describe_listen_error
from kstreams_assign.config import loops_back
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import Event, HttpFailedEvent, HttpListeningEvent
from kstreams_assign.model import HostInfo
from kstreams_assign.state.forking import open_unshared
from kstreams_assign.status.as_json import as_json, tasks_json, verdict_json
from kstreams_assign.status.metrics import exposition
from kstreams_assign.status.page import PAGE, POLICY
from kstreams_assign.status.values import VERDICTS, Status

CONNECTIONS_MAX = 32
REQUEST_BYTES_MAX = 16_384
SILENCE_S = 5.0
CONNECTION_S = 10.0
TURN_S = 0.1

BUSY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class EventReports(Protocol):
    """Where the server reports its events (``worker.events.EventLog``)."""

    def emit(self, event: Event) -> None: ...


class Answer(NamedTuple):
    """What goes back."""

    code: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


def answer(path: str, status: Callable[[], Status], accept: str) -> Answer:
    """The answer to GET; ``status`` is only asked for where it is needed."""
    if path == "/":
        return Answer(HTTPStatus.OK, "text/html; charset=utf-8", PAGE, {"Content-Security-Policy": POLICY})
    if path.removeprefix("/") in VERDICTS:
        name = path.removeprefix("/")
        verdict = verdict_json(name, status())
        return json_answer(verdict, HTTPStatus.OK if verdict[name] else HTTPStatus.SERVICE_UNAVAILABLE)
    if path == "/metrics":
        body, content_type = exposition(status(), accept)
        return Answer(HTTPStatus.OK, content_type, body)
    if path in _JSON:
        return json_answer(_JSON[path](status()))
    return json_answer({"error": f"no such path; there are {', '.join(PATHS)}"}, HTTPStatus.NOT_FOUND)


_JSON: Mapping[str, Callable[[Status], Any]] = {"/tasks": tasks_json, "/status.json": as_json}
PATHS = ("/", *(f"/{name}" for name in VERDICTS), "/metrics", *_JSON)


def json_answer(value: Any, code: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Return an answer of JSON."""
    return Answer(code, "application/json", json.dumps(value).encode() + b"\n")


class StatusServer:
    """Listens from the moment it is made, answers from ``start`` to ``stop``.

    Raises ``ConfigError`` where it cannot listen.
    """

    def __init__(self, address: HostInfo) -> None:
        try:
            self._server = open_unshared(lambda: _Server(address))
        except OSError as cause:
            reason = describe_listen_error(cause)
            raise ConfigError(f"http = {str(address)!r}: cannot listen there: {reason}") from cause
        self._public = not loops_back(address.host)
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(TURN_S), name="kstreams-http", daemon=True
        )

    @property
    def address(self) -> HostInfo:
        """With the port that was taken."""
        return self._server.address

    def start(self, status: Callable[[], Status], log: EventReports) -> None:
        """Answer with what ``status`` says, which is asked from several threads."""
        self.serve(lambda path, accept: answer(path, status, accept), log)

    def serve(self, answer: Callable[[str, str], Answer], log: EventReports) -> None:
        """Answer with what ``answer`` returns for a path and an ``Accept`` header; it is called by several threads."""
        self._server.answer, self._server.log = answer, log
        self._thread.start()
        open_to_all = (
            f"{self.address} is no loopback address: "
            "every client that reaches it may read names of topics, tasks and hosts"
        )
        warnings = (open_to_all,) if self._public else ()
        log.emit(HttpListeningEvent(url=f"http://{self.address}/", warnings=warnings))

    def stop(self) -> None:
        """Hang up on everybody, and let the address go."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.hang_up()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX
    answer: Callable[[str, str], Answer]
    log: EventReports

    def __init__(self, address: HostInfo) -> None:
        host = address.host.removeprefix("[").removesuffix("]")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._deadlines: dict[socket.socket, float] = {}
        super().__init__((host, address.port), _Handler)
        self.address = HostInfo(address.host, self.server_address[1])
        self.names = LOOPBACK_NAMES | {address.host.lower()} if loops_back(address.host) else None

    def close(self) -> None:
        """Let go of the address, and nothing else (``state.forking``)."""
        self.socket.close()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # socketserver's signature
        """Return whether there is room for another connection."""
        if len(self._deadlines) < CONNECTIONS_MAX:
            self._deadlines[request] = time.monotonic() + CONNECTION_S
            return True
        with suppress(OSError):
            request.send(BUSY)
        return False

    def shutdown_request(self, request: Any) -> None:
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called over and over while it serves: end what has taken too long."""
        now = time.monotonic()
        self._hang_up([request for request, deadline in list(self._deadlines.items()) if deadline < now])

    def hang_up(self) -> None:
        self._hang_up(list(self._deadlines))

    @staticmethod
    def _hang_up(requests: list[socket.socket]) -> None:
        """Their threads wake up with an end or an error, and close them."""
        for request in requests:
            with suppress(OSError):  # it has just ended by itself
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # socketserver's signature
        """Ignore a client that hung up; report any other error, as it is a bug."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.log.emit(HttpFailedEvent(warnings=(f"{type(error).__name__}: {error}",)))


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    timeout = SILENCE_S
    error_content_type = "text/plain"
    error_message_format = "%(code)d %(message)s\n"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = cast("Any", _Bounded(self.rfile))

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except LineTooLong:  # the request line: those of headers are answered to by the library
            self.requestline, self.request_version, self.command = "", "", ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815  # the library's names, here and below

    def refuse(self) -> None:
        refused = {"error": "only GET and HEAD: nothing here changes anything"}
        self._send(json_answer(refused, HTTPStatus.METHOD_NOT_ALLOWED)._replace(headers={"Allow": "GET, HEAD"}))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse  # noqa: N815

    def _answer(self) -> Answer:
        names = self.server.names
        if names is not None and (asked := self.headers.get("Host")) and _name(asked) not in names:
            return json_answer({"error": "it listens on loopback, under no other name"}, HTTPStatus.MISDIRECTED_REQUEST)
        return self.server.answer(self.path.partition("?")[0], self.headers.get("Accept", ""))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.code)
        headers = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **answer.headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        return "kstreams-assign"

    def log_message(self, *_: object) -> None:
        """A probe every second is no news."""


class _Bounded:
    """The request's head, and no more of it than ``REQUEST_BYTES_MAX``."""

    def __init__(self, lines: BufferedIOBase) -> None:
        self._lines = lines
        self._left = REQUEST_BYTES_MAX

    def readline(self, size: int) -> bytes:
        line = self._lines.readline(min(size, self._left))
        self._left -= len(line)
        if not self._left:
            raise LineTooLong("request")
        return line

    def close(self) -> None:
        self._lines.close()


def _name(host: str) -> str:
    """A ``Host`` header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
