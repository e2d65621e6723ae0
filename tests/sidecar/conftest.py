"""The handlers that most tests of requests play with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from tests.sidecar.stand import SHAPE, Stand


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    stores = open_task_stores(tmp_path / "store", ["totals", "stamped"], timestamped=SHAPE.timestamped)
    yield Stand(stores)
    stores.close()


@pytest.fixture
def rejecting(stand: Stand) -> Stand:
    """A handler whose subtopology sends rejected records to the dead-letter topic."""
    return Stand(stand.stores, "dead_letter")
