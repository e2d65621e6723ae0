"""The reader of the topic by which members speak to each other, without brokers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from kstreams_assign import Config, Record, TopicPartition
from kstreams_assign.errors import OffsetOutOfRange
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
        return {topic.partition: answer}

    def close(self) -> None: ...


class Admin:
    """The topic's end is where the records of an hour ago have gone."""

    def create_topics(self, *_: Any, **_settings: Any) -> None: ...

    def end_offsets(self, partitions: list[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 40)


topic = ProgressTopic(Config("app", "localhost:9092"), Admin())  # type: ignore[arg-type]


def test_a_member_that_has_not_read_for_long_goes_on_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader([[], OffsetOutOfRange("the broker no longer holds 0", {topic.partition: 0}), [SPOKEN]])
    monkeypatch.setattr(progress_topic, "InputConsumer", lambda *_, **_settings: reader)
    with ExitStack() as clients:
        assert [topic.read(clients) for _ in range(3)] == [[], [], [SPOKEN]]
    assert reader.added == [{topic.partition: 40}] * 2
