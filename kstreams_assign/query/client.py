"""``QueryClient``: ask the processes of an application for keys, without a worker.

What lives here: connections and their pool, and the loop around ``search``. What must not: which process to ask next.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from kstreams_assign.allowed_values import Range
from kstreams_assign.config import read_endpoint, read_host
from kstreams_assign.errors import ConfigError, MalformedFrame, QueryRefused, StoreNotAvailable
from kstreams_assign.query import search
from kstreams_assign.query.messages import (
    FRAME_BYTES_MAX,
    IDLE_S,
    NONCE_BYTES,
    OFFSET_MAX,
    PARTITION_MAX,
    VERSION,
    Answer,
    Get,
    Reason,
    Refused,
    get_message,
    proof,
    read_answer,
)
from kstreams_assign.wire.framing import Frames, Message, frame

IDLE_MAX = 16
"""Connections to one process that are kept open while no query uses them."""
ANSWER_RESERVE_S = 0.25
"""A worker gives a query up this much before its client does, so that its reason arrives, and the owners with it."""
RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Hold the answer to a query (Kafka: ``QueryResult``)."""

    value: bytes | None
    """The committed value; None for a key without a value."""
    role: str
    """``active``, or ``standby`` for an answer from a replica."""
    lag: int
    """Offsets of the store's changelog that the replica lacked when it was asked, at most; 0 from the active task."""
    endpoint: str | None
    """``application_server`` of the process that answered; None for this process if it has none."""
    timestamp_ms: int | None = None
    """Time of the value in a timestamped store, in milliseconds since 1970; None in other stores."""


def checked_get(store: str, key: bytes, partition: int | None, max_lag: int | None, timeout_s: float) -> Get:
    """Return a query. Raises ``ConfigError`` for an argument that is wrong."""
    check_key(key)
    for name, value, most in (("partition", partition, PARTITION_MAX), ("max_lag", max_lag, OFFSET_MAX)):
        if value is not None and not Range(0, most).allows(value):
            raise ConfigError(f"{name} = {value!r}: must be {Range(0, most)}")
    check_timeout(timeout_s)
    return Get(store, key, partition, max_lag, round(timeout_s * 1000))


def check_key(key: bytes) -> None:
    """Raise ``ConfigError`` for a key that is not bytes."""
    if not isinstance(key, bytes):
        raise ConfigError(
            f"key is of type {type(key).__name__}: must be bytes, as the serializer of the keys writes them"
        )


def check_timeout(timeout_s: float) -> None:
    """Raise ``ConfigError`` for a timeout that no thread can wait."""
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 <= timeout_s <= threading.TIMEOUT_MAX:
        raise ConfigError(
            f"timeout_s = {timeout_s!r}: must be a number of seconds, >= 0 and <= {threading.TIMEOUT_MAX:.0f}"
        )


def run_search(
    get: Get,
    members: Sequence[str],
    ask: Callable[[str, Get], Answer],
    wait: Callable[[float], object],
) -> QueryResult:
    """Carry out ``search`` until it has a value, for at most the query's ``timeout_ms``.

    ``ask`` raises ``OSError`` for a process that does not answer. Raises ``StoreNotAvailable`` and ``QueryRefused``.
    """
    path = search.Search(members, _now_ms() + get.timeout_ms, replicas=get.max_lag is not None)
    event: search.Event = search.Begin()
    while True:
        match path.handle(event, _now_ms()):
            case search.Ask(endpoint, timeout_ms):
                try:
                    event = search.Answered(endpoint, ask(endpoint, replace(get, timeout_ms=timeout_ms)))
                except (OSError, MalformedFrame) as cause:
                    event = search.Unreachable(endpoint, str(cause) or type(cause).__name__)
            case search.Pause(pause_ms):
                wait(pause_ms / 1000)
                event = search.Woke()
            case search.Return(endpoint, found):
                return QueryResult(found.value, found.role.value, found.lag, endpoint or None, found.timestamp_ms)
            case search.Refuse(refused):
                raise QueryRefused(refused.code, refused.text)
            case search.GiveUp(text, retry_after_ms):
                raise StoreNotAvailable(
                    f"store {get.store!r}: no process answered for the key within {get.timeout_ms / 1000:g} s: {text}; "
                    f"ask again in {retry_after_ms} ms",
                    retry_after_ms,
                )


def answered_within(get: Get, left_s: float) -> Get:
    """Return the query with the time that a process may wait for its store, if its reason is to arrive in time."""
    return replace(get, timeout_ms=max(1, round((left_s - min(ANSWER_RESERVE_S, left_s / 4)) * 1000)))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Connections:
    """Connections to processes, kept open between queries. Used by several threads."""

    def __init__(self, token: str | None, application_id: str | None) -> None:
        self._token = token
        self._application_id = application_id
        self._idle: dict[str, deque[_Connection]] = {}
        """Of each process: the connections that no query uses, the one that was used last at the end."""
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, endpoint: str, get: Get) -> Answer:
        """Ask one process, within the query's ``timeout_ms``.

        Raises ``OSError`` or ``MalformedFrame`` if it does not answer.
        """
        deadline_s = time.monotonic() + get.timeout_ms / 1000
        connection = self._take(endpoint)
        if connection is not None:
            with suppress(ConnectionError):  # the process has ended or closed an idle connection: connect again
                return self._use(endpoint, connection, get, deadline_s)
        try:
            connection = _Connection(endpoint, self._token, self._application_id, deadline_s)
        except QueryRefused as cause:
            return Refused(cause.code, cause.text)
        return self._use(endpoint, connection, get, deadline_s)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            idle = [connection for connections in self._idle.values() for connection in connections]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _take(self, endpoint: str) -> _Connection | None:
        with self._lock:
            idle = self._idle.get(endpoint)
            return idle.pop() if idle else None

    def _use(self, endpoint: str, connection: _Connection, get: Get, deadline_s: float) -> Answer:
        try:
            answer = connection.ask(get, deadline_s)
        except (OSError, MalformedFrame):
            connection.close()
            raise
        self._keep(endpoint, connection)
        return answer

    def _keep(self, endpoint: str, connection: _Connection) -> None:
        """Keep a connection for the next query, and close those that were not used for too long."""
        connection.used_at_s = time.monotonic()
        with self._lock:
            unused = list(self._take_unused(connection.used_at_s - IDLE_S))
            idle = self._idle.setdefault(endpoint, deque())
            if self._closed or len(idle) >= IDLE_MAX:
                unused.append(connection)
            else:
                idle.append(connection)
        for each in unused:
            each.close()

    def _take_unused(self, before_s: float) -> Iterator[_Connection]:
        for endpoint, idle in list(self._idle.items()):
            while idle and idle[0].used_at_s < before_s:
                yield idle.popleft()
            if not idle:
                del self._idle[endpoint]


def _connect(host: str, port: int, deadline_s: float) -> socket.socket:
    """Connect to the first address of the host that accepts; each may take an equal share of the time that is left.

    Raises the ``OSError`` of the last address. The look-up of the host's name has the system's timeout.
    """
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            return _connect_to(socket.socket(family, kind, protocol), address, (deadline_s - time.monotonic()) / left)
        except OSError:
            if left == 1:
                raise
    raise OSError(f"{host} has no address")


def _connect_to(connection: socket.socket, address: Any, timeout_s: float) -> socket.socket:
    try:
        connection.settimeout(max(timeout_s, 0.001))
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


class _Connection:
    """One connection, which has proved that both sides know the token."""

    def __init__(self, endpoint: str, token: str | None, application_id: str | None, deadline_s: float) -> None:
        host, _, port = endpoint.rpartition(":")
        try:  # other members of the group report it
            self._socket = _connect(host.removeprefix("[").removesuffix("]"), int(port), deadline_s)
        except (ValueError, OverflowError):
            raise OSError(f"not an address to connect to: {endpoint[:80]!r}; it must be HOST:PORT") from None
        self._frames = Frames(FRAME_BYTES_MAX)
        self._number = 0
        self.used_at_s = 0.0
        """When the last query had its answer, by the monotonic clock."""
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._greet(token, application_id, deadline_s)
        except (OSError, MalformedFrame, QueryRefused):
            self._socket.close()
            raise

    def _greet(self, token: str | None, application_id: str | None, deadline_s: float) -> None:
        opening = self._receive(deadline_s)
        theirs, mine = opening.get("nonce"), secrets.token_bytes(NONCE_BYTES)
        if type(theirs) is not bytes or len(theirs) != NONCE_BYTES:
            raise MalformedFrame("the process does not answer queries: no worker listens there")
        hello: Message = {"id": 0, "op": "hello", "version": VERSION, "nonce": mine}
        hello["proof"] = proof(token, "client", theirs, mine)
        if application_id is not None:
            hello["application_id"] = application_id
        self._send(hello, deadline_s)
        reply = self._receive(deadline_s)
        if "error" in reply:
            error = reply["error"]
            if not isinstance(error, dict):
                raise MalformedFrame("the process does not answer queries: its error is no table")
            if error.get("code") == Reason.NOT_READY:
                raise ConnectionRefusedError(str(error.get("message")))
            raise QueryRefused(str(error.get("code")), str(error.get("message")))
        proved = reply["ok"].get("proof") if isinstance(reply.get("ok"), dict) else None
        wanted = proof(token, "server", theirs, mine)
        if type(proved) is not bytes or not hmac.compare_digest(proved, wanted):
            raise QueryRefused("unauthorized", "the process does not know the query_token that this client has")

    def ask(self, get: Get, deadline_s: float) -> Answer:
        """Raises ``OSError`` and ``MalformedFrame``; the connection is of no use then."""
        self._number += 1
        self._send(get_message(self._number, answered_within(get, deadline_s - time.monotonic())), deadline_s)
        return read_answer(self._receive(deadline_s), self._number)

    def close(self) -> None:
        self._socket.close()

    def _send(self, message: Message, deadline_s: float) -> None:
        self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
        self._socket.sendall(frame(message))

    def _receive(self, deadline_s: float) -> Message:
        while (message := self._frames.next()) is None:
            self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the process has closed the connection")
            self._frames.feed(data)
        return message


class QueryClient:
    """Ask the processes of an application for keys; ``with QueryClient(["10.0.0.5:7000"], token=...) as client: ...``.

    ``members`` are ``application_server`` of processes; one that answers is enough, as each knows which process has a
    key. ``token`` is their ``query_token``. With ``application_id``, a process of another application refuses. Several
    threads may use one client. Raises ``ConfigError`` for an address that is not ``HOST:PORT``.
    """

    def __init__(self, members: Sequence[str], *, token: str | None = None, application_id: str | None = None) -> None:
        if isinstance(members, str) or not members:
            raise ConfigError(f"members = {members!r}: must be a list of HOST:PORT, with at least one")
        for member in members:
            read_host("members", member)
        self._members = tuple(str(read_endpoint(member) or member) for member in members)
        self._connections = Connections(token, application_id)

    def query(
        self,
        store: str,
        key: bytes,
        *,
        max_lag: int | None = None,
        partition: int | None = None,
        timeout_s: float = 5.0,
    ) -> QueryResult:
        """Return the committed value of a key, from the process that has it, or within ``max_lag`` from a replica.

        ``max_lag``: offsets of the store's changelog that the replica may lack at most; without it only the active task
        answers (Kafka: ``StateQueryRequest.requireActive``, ``PositionBound``). ``partition`` for a store whose keys
        are not partitioned as Java's default partitioner does. Raises ``StoreNotAvailable`` if no process could answer
        within ``timeout_s``, ``QueryRefused``, and ``ConfigError`` for a wrong argument.
        """
        get = checked_get(store, key, partition, max_lag, timeout_s)
        return run_search(get, self._members, self._ask, threading.Event().wait)

    def _ask(self, endpoint: str, get: Get) -> Answer:
        """Ask a process; one that cannot be reached is not the first to be asked next time."""
        try:
            return self._connections.ask(endpoint, get)
        except OSError:
            if endpoint == self._members[0]:
                self._members = (*self._members[1:], endpoint)
            raise

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
