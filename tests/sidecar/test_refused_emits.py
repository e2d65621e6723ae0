"""An emit that is refused has no effect at all, also where some of its outputs would be set aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.sidecar.ops import Limits
from kstreams_assign.worker.on_error import OnError
from tests.sidecar.stand import SHAPE, TASK, Stand, polled

LIMITS = Limits(records_max=100)
TOO_LARGE, LARGE = bytes(LIMITS.record_bytes_max), bytes(LIMITS.record_bytes_max - 1)
"""Values of a record whose key has one byte."""
COMMITTED_TOGETHER = LIMITS.written_bytes_max // LIMITS.record_bytes_max
"""So many large records may wait for a commit."""


@pytest.fixture(params=["skip", "dead_letter"])
def on_error(request: pytest.FixtureRequest) -> OnError:
    return request.param


@pytest.fixture
def stand(tmp_path: Path, on_error: OnError) -> Iterator[Stand]:
    with closing(open_task_stores(tmp_path / "store", ["totals", "stamped"], timestamped=SHAPE.timestamped)) as stores:
        yield Stand(stores, on_error)


def emit(stand: Stand, *values: bytes) -> object:
    number = stand.ask("emit", task="0_0", topic="out", keys=(b"k",) * len(values), values=values)
    return stand.port.answers[number]


def test_what_is_set_aside_of_an_emit_that_is_repeated_is_set_aside_once(stand: Stand, on_error: OnError) -> None:
    def rows() -> list[str]:
        return [row[0] for row in stand.running.workspace.unsent()]

    polled(stand, 10)
    assert emit(stand, *[LARGE] * COMMITTED_TOGETHER) == COMMITTED_TOGETHER
    assert emit(stand, TOO_LARGE, LARGE) == "uncommitted_limit"
    assert (rows(), stand.bad_records.dropped()) == (["out"] * COMMITTED_TOGETHER, {})
    stand.ask("commit")
    stand.commit_begins()
    assert emit(stand, TOO_LARGE, LARGE) == 1
    assert rows() == ["dead"] * (on_error == "dead_letter") + ["out"]
    assert stand.bad_records.dropped() == {TASK: 1}
