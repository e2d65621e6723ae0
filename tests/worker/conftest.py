"""An application on the broker, named after its test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.events import Event
from kstreams_assign.worker.events import EventLog
from tests.worker.app import App
from tests.worker.described import refuse_wrong_types


@pytest.fixture(autouse=True)
def _only_described_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail, on the reporting thread, for an event whose values are of other types than described."""
    emit = EventLog.emit

    def checked(self: EventLog, event: Event) -> None:
        refuse_wrong_types(event)
        emit(self, event)

    monkeypatch.setattr(EventLog, "emit", checked)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield app
    app.stop()
