"""The address that a worker answers queries at, and the endpoint that it reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from kstreams_assign.config import Config
from kstreams_assign.model import HostInfo
from kstreams_assign.query.client import QueryResult
from kstreams_assign.query.messages import Answer, Found, Get, Owners, Reason, Role, Unanswered
from kstreams_assign.query.server import QueryServer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.querying import Queries

TOKEN = "correct horse battery"


@pytest.mark.parametrize(
    ("application_server", "reported"),
    [
        (None, lambda port: f"127.0.0.1:{port}"),
        ("http://pod:0", lambda port: f"http://pod:{port}"),
        ("[::1]:0", lambda port: f"[::1]:{port}"),
    ],
)
def test_the_port_that_was_taken_is_entered_and_the_rest_stays(
    application_server: str | None, reported: Callable[[int], str]
) -> None:
    given = Config("app", "b:1", query="127.0.0.1:0", query_token=TOKEN, application_server=application_server)
    with closing(Queries(given)) as queries:
        address = queries.config.query_address
        assert address is not None
        assert address.port
        assert queries.config.application_server == reported(address.port)


def test_a_busy_thread_of_this_process_leaves_time_for_a_standby_in_another() -> None:
    server = QueryServer(HostInfo("127.0.0.1", 0))
    server.start("app", None, lambda _: Found(b"5", Role.STANDBY, 2), print)
    standby = f"127.0.0.1:{server.port}"
    waited_ms: list[int] = []

    def busy(get: Get) -> Answer:
        waited_ms.append(get.timeout_ms)
        return Unanswered(Reason.NOT_READY, "busy", Owners(1, None, (standby,)))

    with ExitStack() as ending, closing(Queries(Config("app", "b:1"))) as queries:
        ending.callback(server.stop)
        queries.start(busy, EventLog("p", None))
        result = queries.query("totals", b"ann", max_lag=9, partition=None, timeout_s=2.0)
    assert result == QueryResult(b"5", "standby", 2, standby)
    assert len(waited_ms) == 1
    assert waited_ms[0] <= 1_750
