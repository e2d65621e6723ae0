"""The address that a worker answers queries at, and the endpoint that it reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from kstreams_assign.config import Config
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
