"""The reader of the topic by which members speak to each other, without brokers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from kstreams_assign import Config, Record, TopicPartition
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, OffsetOutOfRange
from kstreams_assign.worker import progress_topic
from kstreams_assign.worker.progress_topic import ProgressTopic

SPOKEN = Record("app-warm-up-progress", 0, 40, 7, b"k", b"v")


class Reader:
    """``answers``: what each poll returns or raises. It reads nothing after an error until it has a place again."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.added: list[Mapping[TopicPartition, int]] = []
        self.has_place = False

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self.added.append(positions)
        self.has_place = True

    def poll(self, _records: int, _timeout_s: float) -> Mapping[TopicPartition, list[Record]]:
        if not self.has_place:
            return {}
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            self.has_place = False
            raise answer
        return {TopicPartition(SPOKEN.topic, SPOKEN.partition): answer}

    def close(self) -> None: ...


class Producer:
    """It writes nothing after a fatal error, until it is renewed. ``lost``: how the records before were lost."""

    def __init__(self, *, is_spoiled: bool = False, lost: bool = False) -> None:
        self.is_spoiled, self.lost = is_spoiled, lost
        self.written: list[bytes] = []

    def produce(self, _topic: str, _partition: int, _key: bytes, value: bytes, _headers: object) -> None:
        if not self.is_spoiled:
            self.written.append(value)

    def acknowledged(self) -> None:
        if self.lost:
            self.lost = False
            raise DeliveryFailed("delivery: timed out")

    def renew_if_spoiled(self) -> None:
        self.is_spoiled = False

    def close(self) -> None: ...


class Admin:
    """The topic's end is where the records of an hour ago have gone. ``outages``: look-ups that fail, by number."""

    outages = (2,)

    def __init__(self) -> None:
        self.asked = 0

    def create_topics(self, *_: Any, **_settings: Any) -> None: ...

    def end_offsets(self, partitions: list[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        self.asked += 1
        if self.asked in self.outages:
            raise BrokerUnavailable("end offsets: timed out")
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
        assert [topic.read(clients) for _ in range(2)] == [[], []]
        with pytest.raises(BrokerUnavailable):
            topic.read(clients)
        assert topic.read(clients) == [SPOKEN]
    assert reader.added == [{topic.partition: 40}] * 2


@pytest.mark.parametrize("before", [{"is_spoiled": True}, {"lost": True}], ids=["fatal", "lost"])
def test_what_is_written_after_records_were_lost_arrives(
    topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch, before: dict[str, bool]
) -> None:
    producer = Producer(**before)
    monkeypatch.setattr(progress_topic, "RecordProducer", lambda *_, **_settings: producer)
    with ExitStack() as clients:
        for value in (b"first", b"second"):
            with suppress(DeliveryFailed):
                topic.publish(b"k", value, [], clients)
    assert producer.written == [b"first", b"second"]
