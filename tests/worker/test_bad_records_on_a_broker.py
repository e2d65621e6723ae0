"""Poison records at random places, and workers that are killed: exactly the poison is set aside, nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import RecordSetAsideEvent
from tests.worker.app import PATIENCE_S, App, until
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.poisoned import POISON, count_good
from tests.worker.process import Process

INPUTS = 10_000
LETTERS_PARTITIONS = 2


def read_dead_letters(broker: str, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """Return key, value and headers of each dead letter that a committed reader sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "reads-dead-letters",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ClientPartition(topic, partition, 0) for partition in range(LETTERS_PARTITIONS)])
    letters, at_end = [], set()
    while len(at_end) < LETTERS_PARTITIONS:
        for message in consumer.consume(1_000, 1.0):
            error = message.error()
            if error is None:
                letters.append((message.key(), message.value(), dict(message.headers() or [])))
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
    consumer.close()
    return letters


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_exactly_the_poison_is_set_aside_while_workers_are_killed(broker: str, tmp_path: Path, guarantee: str) -> None:
    """Exactly once, each once; at least once, a killed worker's uncommitted work may be there twice."""
    random = Random(guarantee)
    app = App(broker, f"poison-{guarantee.replace('_', '-')}", tmp_path)
    letters = f"{app.name}-dead"
    ClusterAdmin(broker).create_topics({letters: LETTERS_PARTITIONS}, PATIENCE_S)
    settings: dict[str, Any] = {
        "processing_guarantee": guarantee,
        "errors_dead_letter_queue_topic_name": letters,
        "session_timeout_ms": 6_000,
        "max_poll_records": 500,
    }
    poison = set(random.sample(range(INPUTS), INPUTS // 50))
    killed, process = 0, Process(app, 1, module="tests.worker.poisoned", **settings)
    try:
        for start in range(0, INPUTS, 500):
            for number in range(start, start + 500):
                app.send_unflushed(b"word-%d" % (number % 97), POISON if number in poison else b"good")
            if start % 2_500 == 2_000:
                process.until(lambda events: any(event.get("records_total") for event in events))
                process.kill()
                killed += 1
                process = Process(app, 1, module="tests.worker.poisoned", **settings)
        app.sent -= Counter(b"word-%d" % (number % 97) for number in poison)
        app.until_counted(read_committed=True)
        bad = {b"word-%d" % (n % 97) for n in poison}
        until(lambda: len({_at(letter) for letter in read_dead_letters(broker, letters)}) >= len(poison))
    finally:
        assert process.close() == 0
        app.stop()
    assert killed == 4
    written = read_dead_letters(broker, letters)
    assert len({_at(letter) for letter in written}) == len(poison)
    assert {(key, value) for key, value, _ in written} == {(word, POISON) for word in bad}
    assert all(headers["__streams.errors.exception"].startswith(b"ValueError: offset") for _, _, headers in written)
    if guarantee == "exactly_once_v2":
        assert len(written) == len(poison)
        assert committed_outputs(app) == each_once(app)
    else:
        assert committed_outputs(app).keys() == each_once(app).keys()


def _at(letter: tuple[bytes | None, bytes | None, dict[str, bytes]]) -> tuple[bytes, int]:
    headers = letter[2]
    return headers["__streams.errors.partition"], int(headers["__streams.errors.offset"])


def test_a_worker_goes_on_behind_a_record_that_it_skips(app: App) -> None:
    worker = app.start(1, count_good, on_error="skip")
    app.send([b"a", b"b"])
    app.send_unflushed(b"a", POISON)
    app.sent -= Counter([b"a"])
    app.send([b"a"])
    app.until_counted()
    [event] = worker.reported(RecordSetAsideEvent)
    assert (event.response, event.reason) == ("skip", f"ValueError: offset {event.offset}")


def test_a_dead_letter_topic_that_does_not_exist_is_refused_at_start(app: App) -> None:
    worker = app.start(1, errors_dead_letter_queue_topic_name="no-such-topic")
    error = worker.until_error()
    assert isinstance(error, ConfigError)
    assert "errors_dead_letter_queue_topic_name = 'no-such-topic': there is no such topic" in str(error)
