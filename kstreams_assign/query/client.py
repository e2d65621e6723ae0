"""``QueryClient``: ask the processes of an application for keys, without a worker.

What lives here: connections and their pool, and the loop around ``search``. What must not: which process to ask next.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from kstreams_assign.allowed_values import Range
from kstreams_assign.config import read_endpoint, read_host
from kstreams_assign.errors import ConfigError, MalformedFrame, QueryRefused, StoreNotAvailable
from kstreams_assign.query import search
from kstreams_assign.query.messages import (
    FRAME_BYTES_MAX,
    NONCE_BYTES,
    OFFSET_MAX,
    PARTITION_MAX,
    VERSION,
    Answer,
    Get,
    Refused,
    get_message,
    proof,
    read_answer,
)
from kstreams_assign.wire.framing import Frames, Message, frame

IDLE_MAX = 16
"""Connections to one process that are kept open while no query uses them."""
ANSWER_RESERVE_S = 0.25
"""A worker gives a query up this much before its client does, so that its reason arrives."""
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


def checked_get(store: str, key: bytes, partition: int | None, max_lag: int | None) -> Get:
    """Return a query. Raises ``ConfigError`` for an argument that is wrong."""
    if not isinstance(key, bytes):
        raise ConfigError(
            f"key is of type {type(key).__name__}: must be bytes, as the serializer of the keys writes them"
        )
    for name, value, most in (("partition", partition, PARTITION_MAX), ("max_lag", max_lag, OFFSET_MAX)):
        if value is not None and not Range(0, most).allows(value):
            raise ConfigError(f"{name} = {value!r}: must be {Range(0, most)}")
    return Get(store, key, partition, max_lag)


def run_search(
    get: Get,
    members: Sequence[str],
    timeout_s: float,
    ask: Callable[[str, Get], Answer],
    wait: Callable[[float], object],
) -> QueryResult:
    """Carry out ``search`` until it has a value. ``ask`` raises ``OSError`` for a process that does not answer.

    Raises ``StoreNotAvailable`` and ``QueryRefused``.
    """
    path = search.Search(members, _now_ms() + round(timeout_s * 1000), replicas=get.max_lag is not None)
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
                    f"store {get.store!r}: no process answered for the key within {timeout_s:g} s: {text}; "
                    f"ask again in {retry_after_ms} ms",
                    retry_after_ms,
                )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Connections:
    """Connections to processes, kept open between queries. Used by several threads."""

    def __init__(self, token: str | None, application_id: str | None) -> None:
        self._token = token
        self._application_id = application_id
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
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
            idle = self._idle[endpoint]
            return idle.pop() if idle else None

    def _use(self, endpoint: str, connection: _Connection, get: Get, deadline_s: float) -> Answer:
        try:
            answer = connection.ask(get, deadline_s)
        except (OSError, MalformedFrame):
            connection.close()
            raise
        with self._lock:
            keep = not self._closed and len(self._idle[endpoint]) < IDLE_MAX
            if keep:
                self._idle[endpoint].append(connection)
        if not keep:
            connection.close()
        return answer


class _Connection:
    """One connection, which has proved that both sides know the token."""

    def __init__(self, endpoint: str, token: str | None, application_id: str | None, deadline_s: float) -> None:
        host, _, port = endpoint.rpartition(":")
        try:  # other members of the group report it
            address = (host.removeprefix("[").removesuffix("]"), int(port))
            self._socket = socket.create_connection(address, max(deadline_s - time.monotonic(), 0.001))
        except (ValueError, OverflowError):
            raise OSError(f"not an address to connect to: {endpoint[:80]!r}; it must be HOST:PORT") from None
        self._frames = Frames(FRAME_BYTES_MAX)
        self._number = 0
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
            raise QueryRefused(str(error.get("code")), str(error.get("message")))
        proved = reply["ok"].get("proof") if isinstance(reply.get("ok"), dict) else None
        wanted = proof(token, "server", theirs, mine)
        if type(proved) is not bytes or not hmac.compare_digest(proved, wanted):
            raise QueryRefused("unauthorized", "the process does not know the query_token that this client has")

    def ask(self, get: Get, deadline_s: float) -> Answer:
        """Raises ``OSError`` and ``MalformedFrame``; the connection is of no use then."""
        self._number += 1
        left_s = deadline_s - time.monotonic()
        waits_ms = max(1, round((left_s - min(ANSWER_RESERVE_S, left_s / 4)) * 1000))
        self._send(get_message(self._number, replace(get, timeout_ms=waits_ms)), deadline_s)
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
        get = checked_get(store, key, partition, max_lag)
        return run_search(get, self._members, timeout_s, self._ask, threading.Event().wait)

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
