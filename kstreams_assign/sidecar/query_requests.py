"""The ops ``query`` and ``locate``: in threads of their own.

They wait for other processes, for brokers, or for the loop that has the stores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Protocol

from kstreams_assign.errors import ConfigError, KStreamsAssignError, QueryRefused, SidecarRefused
from kstreams_assign.query.client import QueryResult
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.session import error_reply
from kstreams_assign.wire.framing import Message
from kstreams_assign.worker.lookup import Location

THREADS = 8


class Port(Protocol):
    """The way back to a session. Both methods only queue the message; after the session's end they drop it.

    ``full``: so many answers wait to be read that no large one should be made. ``Work.go_on`` reports the end of that.
    """

    @property
    def full(self) -> bool: ...

    def answer(self, number: int, message: Message) -> None: ...

    def push(self, message: Message) -> None: ...


class QueryRequests:
    """Answers queries and look-ups of the session. ``query`` and ``locate`` are the worker's."""

    OPS = frozenset({"query", "locate"})

    def __init__(self) -> None:
        self.query: Callable[..., QueryResult]
        self.locate: Callable[[str, bytes], Location]
        self._pool = ThreadPoolExecutor(THREADS, "kstreams-sidecar-query")

    def submit(self, port: Port, request: Request) -> None:
        """Have a request of ``OPS`` answered. From any thread."""
        try:
            self._pool.submit(self._answer, port, request)
        except RuntimeError:  # the pool is shut down
            port.answer(request.id, error_reply(request.id, refused("closing", "the worker ends")))

    def stop(self) -> None:
        """Take no more queries; those under way are given up by the worker."""
        self._pool.shutdown(wait=False)

    def _answer(self, port: Port, request: Request) -> None:
        answer = self._query if request.op == "query" else self._locate
        try:
            result = answer(**request.fields)
        except KStreamsAssignError as cause:
            port.answer(request.id, error_reply(request.id, _refusal(cause)))
        else:
            port.answer(request.id, {"id": request.id, "ok": result})

    def _query(self, store: str, key: bytes, timeout_ms: int, **limits: Any) -> dict[str, Any]:
        return asdict(self.query(store, key, timeout_s=timeout_ms / 1000, **limits))

    def _locate(self, store: str, key: bytes) -> dict[str, Any]:
        try:
            where = self.locate(store, key)
        except ConfigError as cause:
            raise refused("no_such_store", str(cause)) from cause
        return {"active": where.active, "standbys": [*where.standbys]}


def _refusal(cause: KStreamsAssignError) -> SidecarRefused:
    if isinstance(cause, SidecarRefused):
        return cause
    code = cause.code if isinstance(cause, QueryRefused) else ""
    if code == "does_not_exist":
        return refused("no_such_store", str(cause))
    if code == "too_large":
        return refused("too_large", str(cause))
    return refused("store_not_available", str(cause))
