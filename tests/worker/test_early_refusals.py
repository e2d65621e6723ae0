"""Early probing without brokers: a refusal of its records ends it with a warning, and an outage does not."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, RecordRefused
from kstreams_assign.events import EarlyProbingOffEvent, Event
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.worker import early
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog

STANDBY = TaskId(0, 0)
REFUSED = RecordRefused("no right to write", "progress", 0, b"k", absent=False, forbidden=True)


class Topic:
    """A topic that takes no record. It ends the test at the third attempt."""

    def __init__(self, fails: Exception, stopped: EndRequest) -> None:
        self._fails, self._stopped = fails, stopped
        self.attempts = 0

    def publish(self, *_record: Any) -> None:
        self.attempts += 1
        if self.attempts == 3:
            self._stopped.set()
        raise self._fails


def publish_in_vain(monkeypatch: pytest.MonkeyPatch, fails: Exception) -> tuple[Topic, EarlyProbing, list[Event]]:
    """Run a follower that has a replica to report, under a Python leader."""
    monkeypatch.setattr(early, "TURN_S", 0)
    reported: list[Event] = []
    stopped = EndRequest()
    sums, log = OffsetSums(), EventLog("p", reported.append)
    sums.restoring(STANDBY, {TopicPartition("changelog", 0): 5})
    admin = cast("ClusterAdmin", None)
    probing = EarlyProbing(
        Config("app", "localhost:9092"), UUID(int=1), sums, admin, lambda _tasks: {}, lambda _reason: None, log
    )
    topic = Topic(fails, stopped)
    monkeypatch.setattr(probing, "_topic", topic)
    follows = Adopted({}, frozenset({STANDBY}), frozenset(), next_probe_ms=600_000, assignor="least_movement")
    probing.adopted(1, follows, None)
    probing.run(stopped)
    return topic, probing, reported


def test_a_member_that_may_not_write_the_topic_goes_without_early_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, probing, reported = publish_in_vain(monkeypatch, REFUSED)
    assert topic.attempts == 1
    (off,) = reported
    assert isinstance(off, EarlyProbingOffEvent)
    assert off.warnings == ("no right to write; the probing interval holds",)
    assert probing.view().off == "no right to write"


@pytest.mark.parametrize("fails", [DeliveryFailed("not acknowledged"), BrokerUnavailable("no answer")])
def test_what_an_outage_loses_is_published_again(monkeypatch: pytest.MonkeyPatch, fails: Exception) -> None:
    topic, probing, reported = publish_in_vain(monkeypatch, fails)
    assert (topic.attempts, reported, probing.view().off) == (3, [], None)
