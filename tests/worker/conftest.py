"""An application on the broker, named after its test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.worker.events import EventLog
from tests.worker.app import App
from tests.worker.described import refuse_undescribed


@pytest.fixture(autouse=True)
def _only_described_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail, on the reporting thread, for an event that differs from its type in ``kstreams_assign.events``."""
    emit = EventLog.emit

    def checked(self: EventLog, event: str, **facts: object) -> None:
        refuse_undescribed([{"time_ms": 0, "process_id": "", "event": event, **facts}])
        emit(self, event, **facts)

    monkeypatch.setattr(EventLog, "emit", checked)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield app
    app.stop()
