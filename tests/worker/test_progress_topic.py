"""The reader of the topic by which members speak to each other, without brokers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from kstreams_assign import Config, Record, TopicPartition
from kstreams_assign.errors import DeliveryFailed, OffsetOutOfRange
from kstreams_assign.worker import progress_topic
from kstreams_assign.worker.progress_topic import ProgressTopic

SPOKEN = Record("app-warm-up-progress", 0, 40, 7, b"k", b"v")


class Reader:
    """``answers``: what each poll returns or raises."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.added: list[Mapping[TopicPartition, int]] = []

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self.added.append(positions)

    def poll(self, _records: int, _timeout_s: float) -> Mapping[TopicPartition, list[Record]]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {TopicPartition(SPOKEN.topic, SPOKEN.partition): answer}

    def close(self) -> None: ...


class Producer:
    """It writes nothing after a fatal error, until what was queued is dropped."""

    def __init__(self) -> None:
        self.is_spoiled = True
        self.written: list[bytes] = []

    def produce(self, _topic: str, _partition: int, _key: bytes, value: bytes, _headers: object) -> None:
        if not self.is_spoiled:
            self.written.append(value)

    def acknowledged(self) -> None:
        if self.is_spoiled:
            raise DeliveryFailed("delivery: out of sequence")

    def abandon(self) -> None:
        self.is_spoiled = False

    def close(self) -> None: ...


class Admin:
    """The topic's end is where the records of an hour ago have gone."""

    def create_topics(self, *_: Any, **_settings: Any) -> None: ...

    def end_offsets(self, partitions: list[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 40)


@pytest.fixture
def topic() -> ProgressTopic:
    return ProgressTopic(Config("app", "localhost:9092"), Admin())  # type: ignore[arg-type]


def test_a_member_that_has_not_read_for_long_goes_on_at_the_end(
    topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader([[], OffsetOutOfRange("the broker no longer holds 0", {topic.partition: 0}), [SPOKEN]])
    monkeypatch.setattr(progress_topic, "InputConsumer", lambda *_, **_settings: reader)
    with ExitStack() as clients:
        assert [topic.read(clients) for _ in range(3)] == [[], [], [SPOKEN]]
    assert reader.added == [{topic.partition: 40}] * 2


def test_a_member_whose_client_had_a_fatal_error_is_heard_again(
    topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer()
    monkeypatch.setattr(progress_topic, "RecordProducer", lambda *_, **_settings: producer)
    with ExitStack() as clients:
        with pytest.raises(DeliveryFailed):
            topic.publish(b"k", b"first", [], clients)
        topic.publish(b"k", b"again", [], clients)
    assert producer.written == [b"again"]
