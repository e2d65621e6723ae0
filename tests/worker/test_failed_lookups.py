"""A leader that cannot look up changelog ends: each owner keeps its tasks, and a probe tries again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import AssignedEvent, DecisionEvent, LookupFailedEvent
from tests.worker.app import PARTITIONS, App

WORDS = [b"word-%d" % (n % 97) for n in range(500)]


@pytest.fixture
def app(broker: str, tmp_path: Path) -> Iterator[App]:
    app = App(broker, "failed-lookups", tmp_path)
    yield app
    app.stop()


def test_owners_keep_their_tasks_until_ends_can_be_looked_up_again(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.send(WORDS)
    first = app.start(1, early_probing=False)
    first.until_running(PARTITIONS)
    app.until_counted()

    def unanswered(*_: Any) -> Any:
        raise BrokerUnavailable("offset of a changelog: no answer")

    with monkeypatch.context() as patched:
        patched.setattr(ClusterAdmin, "end_offsets", unanswered)
        second = app.start(2, early_probing=False)
        second.until_event(AssignedEvent)
        first.until_event(DecisionEvent, members=2)
        decision = first.reported(DecisionEvent)[-1]
        assert decision.assignor == "fallback_prior"
        assert (decision.changed, decision.adopted) == ({}, ())
        assert decision.next_probe_ms is not None, "it is tried again"
        assert any("end offsets could not be read" in text for text in decision.warnings)
        failed = first.reported(LookupFailedEvent)[-1]
        assert (failed.what, failed.reason) == ("changelog end offsets", "offset of a changelog: no answer")
        first.until_running(PARTITIONS)
        app.send(WORDS)
        app.until_counted()
    first.worker.rejoin("they can be had again")
    first.until_running(PARTITIONS // 2)
    second.until_running(PARTITIONS // 2)
    assert first.reported(DecisionEvent)[-1].assignor == "least_movement"
    app.send(WORDS)
    app.until_counted()
