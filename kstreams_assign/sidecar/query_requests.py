"""The op ``query``: in threads of its own, as it waits for other processes, or for the loop that has the stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Protocol

from kstreams_assign.errors import KStreamsAssignError, QueryRefused, SidecarRefused
from kstreams_assign.query.client import QueryResult
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.session import error_reply
from kstreams_assign.wire.framing import Message

THREADS = 8


class Port(Protocol):
    """The way back to a session. Both methods only queue the message; after the session's end they drop it."""

    def answer(self, number: int, message: Message) -> None: ...

    def push(self, message: Message) -> None: ...


class QueryRequests:
    """Answers queries of the session. ``query`` is the worker's."""

    def __init__(self) -> None:
        self.query: Callable[..., QueryResult]
        self._pool = ThreadPoolExecutor(THREADS, "kstreams-sidecar-query")

    def submit(self, port: Port, request: Request) -> None:
        """Have a query answered. From any thread."""
        try:
            self._pool.submit(self._answer, port, request)
        except RuntimeError:  # the pool is shut down
            port.answer(request.id, error_reply(request.id, refused("closing", "the worker ends")))

    def stop(self) -> None:
        """Take no more queries; those under way are given up by the worker."""
        self._pool.shutdown(wait=False)

    def _answer(self, port: Port, request: Request) -> None:
        fields = dict(request.fields)
        timeout_s = fields.pop("timeout_ms") / 1000
        store, key = fields.pop("store"), fields.pop("key")
        try:
            result = self.query(store, key, timeout_s=timeout_s, **fields)
        except KStreamsAssignError as cause:
            port.answer(request.id, error_reply(request.id, _refusal(cause)))
        else:
            port.answer(request.id, {"id": request.id, "ok": asdict(result)})


def _refusal(cause: KStreamsAssignError) -> SidecarRefused:
    code = cause.code if isinstance(cause, QueryRefused) else ""
    if code == "does_not_exist":
        return refused("no_such_store", str(cause))
    if code == "too_large":
        return refused("too_large", str(cause))
    return refused("store_not_available", str(cause))
