"""When all records of a partition were brought: what the client knows of its end may be old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from kstreams_assign.adapters.confluent import inputs
from kstreams_assign.adapters.confluent.feed import Taken
from kstreams_assign.model import TopicPartition

AT = TopicPartition("in", 0)


class Feed:
    """A client whose ends a test sets: ``known`` as of its newest fetch, ``reached`` as an event."""

    def __init__(self, *_addresses: object, **_settings: object) -> None:
        self.known: dict[TopicPartition, int] = {}
        self.reached: dict[TopicPartition, int] = {}
        self.is_all = True

    def add(self, positions: Mapping[TopicPartition, int]) -> None: ...

    def remove(self, partitions: Iterable[TopicPartition]) -> None: ...

    def take(self, _max_records: int, _timeout_s: float) -> Taken:
        reached, self.reached = self.reached, {}
        return Taken([], reached, {}, self.is_all)

    def end(self, partition: TopicPartition) -> int | None:
        return self.known.get(partition)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    made = Feed()
    monkeypatch.setattr(inputs, "Feed", lambda *_, **__: made)
    return made


def consumer() -> inputs.InputConsumer:
    return inputs.InputConsumer("localhost:1", group_id="g")


def test_an_end_that_was_reached_is_old_news_while_more_has_arrived_than_was_taken(feed: Feed) -> None:
    reader = consumer()
    reader.add({AT: 100})
    feed.known, feed.reached = {AT: 100}, {AT: 100}
    reader.poll(1, 0)
    assert reader.is_at_end(AT)
    feed.known, feed.is_all = {AT: 200}, False
    reader.poll(1, 0)
    assert not reader.is_at_end(AT), "its records wait in the client, behind others"
    feed.is_all = True
    reader.poll(1, 0)
    assert reader.is_at_end(AT), "what is behind it belongs to an open transaction"


def test_an_end_that_was_known_before_a_partition_was_added_says_nothing(feed: Feed) -> None:
    reader = consumer()
    feed.known = {AT: 100}
    for position in (100, 150):
        reader.add({AT: position})
        assert not reader.is_at_end(AT)
    feed.known = {AT: 150}
    assert reader.is_at_end(AT), "a fetch has brought another end"
    reader.add({AT: 150})
    feed.reached = {AT: 150}
    assert not reader.is_at_end(AT)
    reader.poll(1, 0)
    assert reader.is_at_end(AT)
