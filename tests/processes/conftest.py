"""An application on the broker, and supervisors that end with their test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.supervised import Supervised
from tests.worker.app import App


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield app
    app.stop()


@pytest.fixture
def track() -> Iterator[Callable[[Supervised], Supervised]]:
    """Return what keeps a supervisor for the end of the test."""
    kept: list[Supervised] = []

    def keep(supervised: Supervised) -> Supervised:
        kept.append(supervised)
        return supervised

    yield keep
    for supervised in kept:
        supervised.clean_up()
