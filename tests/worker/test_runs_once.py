"""A worker and a sidecar run once: a further call of ``run`` is refused and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstreams_assign import Config, ConfigError, Event, StateDirectoryLocked, Subtopology, Worker
from kstreams_assign.adapters.confluent import first_contact
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import ClosedEvent, EventListener
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.sidecar.sidecar import Sidecar
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.worker import runtime
from tests.adapters.confluent_cluster import closed_port
from tests.worker.app import until

ENDS_WITHIN_S = 60.0


async def waits(_event: object) -> None:
    """Do nothing."""


def test_a_listener_that_would_never_run_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"on_event = waits: must be a function \(event\) without await and yield"):
        make_worker(tmp_path / "state", waits)  # type: ignore[arg-type]
    assert not (tmp_path / "state").exists()


def make_worker(state: Path, on_event: EventListener | None = None) -> Worker:
    topology = [Subtopology(lambda *_: None, sources=["in"], stores=["totals"])]
    return Worker(Config("app", closed_port(), str(state)), topology, on_event=on_event)


@pytest.fixture
def begin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[Worker | Sidecar], threading.Thread]]:
    """Return what runs a worker on a thread, where it waits for its broker until it is closed."""
    monkeypatch.setattr(first_contact, "FIRST_REPORT_S", 0.0)
    begun: list[tuple[Worker | Sidecar, threading.Thread]] = []

    def begin(worker: Worker | Sidecar) -> threading.Thread:
        running = threading.Thread(target=worker.run, daemon=True)
        begun.append((worker, running))
        running.start()
        until(lambda: "No broker has answered" in caplog.text)
        return running

    yield begin
    for worker, running in begun:
        worker.close()
        running.join(ENDS_WITHIN_S)


def test_a_worker_whose_run_has_failed_does_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "FIRST_ANSWER_S", 0.5)
    events: list[Event] = []
    worker = make_worker(tmp_path, events.append)
    with pytest.raises(BrokerUnavailable):
        worker.run()
    reported = list(events)
    with pytest.raises(ConfigError, match=r"^run: was called before; each Worker runs once, so make another Worker$"):
        worker.run()
    assert events == reported
    another = make_worker(tmp_path)
    another.close()
    another.run()


def test_a_worker_that_is_closed_before_its_run_returns_from_it_once(tmp_path: Path) -> None:
    events: list[Event] = []
    worker = make_worker(tmp_path, events.append)
    worker.close()
    worker.run()
    with pytest.raises(ConfigError, match="runs once"):
        worker.run()
    assert [type(event) for event in events] == [ClosedEvent]


def test_a_second_run_leaves_the_first_at_work(
    tmp_path: Path, begin: Callable[[Worker | Sidecar], threading.Thread]
) -> None:
    events: list[Event] = []
    worker = make_worker(tmp_path, events.append)
    running = begin(worker)
    with pytest.raises(ConfigError, match="runs once"):
        worker.run()
    assert running.is_alive()
    with pytest.raises(StateDirectoryLocked):
        make_worker(tmp_path)
    worker.close()
    running.join(ENDS_WITHIN_S)
    assert not running.is_alive()
    assert [event.error for event in events if isinstance(event, ClosedEvent)] == [None]


def test_a_second_run_leaves_the_socket_of_a_sidecar(
    tmp_path: Path, begin: Callable[[Worker | Sidecar], threading.Thread]
) -> None:
    socket = tmp_path / "app.sock"
    settings = SidecarSettings.from_mapping(
        {
            "application_id": "app",
            "bootstrap_servers": closed_port(),
            "state_dir": str(tmp_path / "state"),
            "socket": str(socket),
            "topology": {"subtopology": [{"sources": ["in"]}]},
        }
    )
    sidecar = Sidecar(settings)
    running = begin(sidecar)
    with pytest.raises(ConfigError, match=r"^run: was called before; each Sidecar runs once, so make another Sidecar$"):
        sidecar.run()
    assert running.is_alive()
    assert socket.exists()
    sidecar.close()
    running.join(ENDS_WITHIN_S)
    assert not socket.exists()
    StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0).close()
