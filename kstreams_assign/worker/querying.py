"""Queries of a worker: the endpoint that answers them, and ``Worker.query``, which asks this process, then others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from kstreams_assign.config import Config
from kstreams_assign.errors import StoreNotAvailable
from kstreams_assign.events import QueryFailedEvent, QueryListeningEvent
from kstreams_assign.query.client import Connections, QueryResult, answered_within, checked_get, run_search
from kstreams_assign.query.messages import Answer, Get
from kstreams_assign.query.server import QueryServer
from kstreams_assign.worker.events import EventLog

START_RETRY_MS = 500


class Queries:
    """Listens from the moment it is made if ``query`` is set; answers and asks from ``start`` to ``close``.

    Raises ``ConfigError`` where it cannot listen.
    """

    def __init__(self, config: Config) -> None:
        address = config.query_address
        self._server = None if address is None else QueryServer(address)
        self.config = config if self._server is None else _with_port(config, self._server.port)
        """With the port that was taken, also in ``application_server``."""
        self._connections = Connections(config.query_token, config.application_id)
        self._closing = threading.Event()
        self._answer: Callable[[Get], Answer] | None = None

    def start(self, answer: Callable[[Get], Answer], log: EventLog) -> None:
        """Answer with what ``answer`` returns; any thread calls it."""
        self._answer = answer
        if self._server is None:
            return
        self._server.start(
            self.config.application_id,
            self.config.query_token,
            answer,
            lambda text: log.emit(QueryFailedEvent(warnings=(text,))),
        )
        log.emit(QueryListeningEvent(address=self.config.query or "", endpoint=self.config.application_server or ""))

    def close(self) -> None:
        """Answer no more; queries that wait are given up."""
        self._answer = None
        self._closing.set()
        if self._server is not None:
            self._server.stop()
        self._connections.close()

    def query(
        self, store: str, key: bytes, *, max_lag: int | None, partition: int | None, timeout_s: float
    ) -> QueryResult:
        """Ask this process, then the process that has the key. Raises as ``QueryClient.query``."""
        get = checked_get(store, key, partition, max_lag, timeout_s)
        answer = self._answer
        if answer is None:
            raise StoreNotAvailable("the worker is not running", START_RETRY_MS)
        own = str(self.config.endpoint or "")

        def ask(endpoint: str, asked: Get) -> Answer:
            if self._closing.is_set():
                raise StoreNotAvailable("the worker is ending", START_RETRY_MS)
            if endpoint == own:
                return answer(answered_within(asked, asked.timeout_ms / 1000))
            return self._connections.ask(endpoint, asked)

        return run_search(get, [own], ask, self._closing.wait)


def _with_port(config: Config, port: int) -> Config:
    assert config.query_address is not None
    query = f"{config.query_address.host}:{port}"
    endpoint = config.application_server or query
    if config.endpoint is not None and config.endpoint.port == 0:
        endpoint = f"{endpoint.rpartition(':')[0]}:{port}"
    return replace(config, query=query, application_server=endpoint)
