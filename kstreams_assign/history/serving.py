"""``history follow --http``: the figures of a run for Prometheus, by the server of ``status``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.events import Event, HttpListeningEvent, WithWarnings
from kstreams_assign.history.progress import Figures
from kstreams_assign.model import HostInfo
from kstreams_assign.status.exposing import expose_values
from kstreams_assign.status.metric_table import HISTORY_ROWS
from kstreams_assign.status.server import Answer, StatusServer, json_answer

PATH = "/metrics"


@contextmanager
def served(address: HostInfo | None, figures: Callable[[], Figures], say: Callable[[str], None]) -> Iterator[None]:
    """Answer at ``address`` for the block; None: nowhere. Raises ``ConfigError`` where it cannot listen."""
    if address is None:
        yield
        return
    server = StatusServer(address)
    try:
        server.serve(lambda path, accept: _answer(path, figures, accept), _Lines(say))
        yield
    finally:
        server.stop()


def _answer(path: str, figures: Callable[[], Figures], accept: str) -> Answer:
    if path != PATH:
        return json_answer({"error": f"no such path; there is {PATH}"}, HTTPStatus.NOT_FOUND)
    body, content_type = expose_values(HISTORY_ROWS, figures().values(wall_ms()), accept)
    return Answer(HTTPStatus.OK, content_type, body)


class _Lines:
    """The server's events as lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def emit(self, event: Event) -> None:
        if isinstance(event, HttpListeningEvent):
            self._say(f"metrics at {event.url.rstrip('/')}{PATH}")
        if isinstance(event, WithWarnings):
            for warning in event.warnings:
                self._say(f"warning: {warning}")
