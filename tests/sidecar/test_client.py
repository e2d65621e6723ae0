"""The blocking client by itself: what a request that was sent ahead gives, however often it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.errors import SidecarDisconnected, SidecarRefused
from kstreams_assign.sidecar.address import UnixAddress
from kstreams_assign.sidecar.client import SidecarClient
from kstreams_assign.sidecar.messages import Request, refused
from kstreams_assign.sidecar.query_requests import Port
from kstreams_assign.sidecar.server import Server
from kstreams_assign.sidecar.session import error_reply

ANSWERS_WITHIN_S = 30.0


class Work:
    """Refuses the first commit, answers the second, and leaves the third without an answer."""

    def __init__(self) -> None:
        self._commits = 0

    def open(self, _port: Port) -> None:
        """Nothing is pushed."""

    def submit(self, port: Port, request: Request) -> None:
        self._commits += 1
        if self._commits == 1:
            port.answer(request.id, error_reply(request.id, refused("commit_failed", "never")))
        elif self._commits == 2:
            port.answer(request.id, {"id": request.id, "ok": 7})

    def leave(self, _port: Port) -> None:
        """Nothing is kept."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SidecarClient]:
    server = Server(UnixAddress(tmp_path / "a.sock"), None, Work())
    server.start({}, lambda: None)
    with SidecarClient(server.address, timeout_s=ANSWERS_WITHIN_S) as session:
        yield session
    server.stop()


def test_the_result_of_a_commit_sent_ahead_can_be_asked_for_again(session: SidecarClient) -> None:
    fails, works, waits = (session.commit_later() for _ in range(3))
    assert [works.result(), works.result()] == [7, 7]
    for _ in range(2):
        with pytest.raises(SidecarRefused, match="commit_failed: never"):
            fails.result()
    session.__exit__(None, None, None)
    for _ in range(2):
        with pytest.raises(SidecarDisconnected, match="closed by this application"):
            waits.result()
    assert works.result() == 7, "the answer outlives the session"
