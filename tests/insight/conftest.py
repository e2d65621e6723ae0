"""The command line, and small applications on the broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.insight.run import Cli
from tests.worker.app import App


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    started = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield started
    started.stop()
