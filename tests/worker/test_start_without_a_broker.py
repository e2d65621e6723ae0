"""A worker that is started while its broker is away waits for it, for half a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_assign import Config, Event, Subtopology, Worker
from kstreams_assign.adapters.confluent import first_contact
from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import ClosedEvent
from kstreams_assign.local import LocalBroker
from kstreams_assign.worker import connecting, runtime
from tests.adapters.confluent_cluster import closed_port
from tests.worker.app import PARTITIONS, App, until

ENDS_WITHIN_S = 5.0
"""Far less than the 30 s of the wait; the end itself takes some milliseconds."""


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_it_works_as_soon_as_the_broker_is_there_and_again_after_an_outage(
    broker: str,  # noqa: ARG001  # the part
    tmp_path: Path,
    protocol: str,
) -> None:
    with LocalBroker() as own:
        app = App(own.bootstrap_servers, "patient", tmp_path)
        own.kill()
        worker = app.start(1, group_protocol=protocol)
        own.restart()
        worker.until_running(PARTITIONS)
        own.kill()
        own.restart()
        app.send([b"word"] * 10)
        app.until_counted()
        assert worker.error is None
        app.stop()


def test_a_worker_ends_after_one_wait_with_the_address_and_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "FIRST_ANSWER_S", 0.5)
    address, events = closed_port(), []
    worker = Worker(
        Config("alone", address, str(tmp_path)),
        [Subtopology(lambda *_: None, sources=["in"], stores=["totals"])],
        on_event=lambda event: events.append(type(event)),
    )
    with pytest.raises(BrokerUnavailable, match=f"bootstrap_servers = '{address}': no broker answered .*; check that"):
        worker.run()
    assert events == [ClosedEvent], "no other look-up waited for the broker too"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(Worker.close, id="close"),
        pytest.param(lambda worker: worker.close(restart=True), id="restart"),
        pytest.param(Worker.drain, id="drain"),
    ],
)
def test_a_worker_that_is_asked_to_end_stops_waiting_for_its_first_broker(
    end: Callable[[Worker], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_contact, "FIRST_REPORT_S", 0.0)
    events: list[Event] = []
    errors: list[BaseException] = []
    worker = Worker(
        Config("alone", closed_port(), str(tmp_path)),
        [Subtopology(lambda *_: None, sources=["in"], stores=["totals"])],
        on_event=events.append,
    )

    def run() -> None:
        try:
            worker.run()
        except BrokerUnavailable as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    until(lambda: "No broker has answered" in caplog.text)
    end(worker)
    running.join(ENDS_WITHIN_S)
    assert not running.is_alive()
    assert errors == []
    assert [event.error for event in events if isinstance(event, ClosedEvent)] == [None]


def test_the_group_is_connected_to_again_and_again_until_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = []

    def refused(*_: object) -> None:
        tries.append(1)
        raise BrokerUnavailable("connection refused")

    monkeypatch.setattr(connecting, "_group_client", refused)
    monkeypatch.setattr(connecting, "CONNECT_S", 2.0)
    monkeypatch.setattr(connecting, "CONNECT_RETRY_S", 0.05)
    with pytest.raises(BrokerUnavailable):
        connecting.group_client(None, None, None, None)  # type: ignore[arg-type]  # passed on
    assert len(tries) > 1
