"""Poison records at random places, and workers that are killed: exactly the poison is set aside, nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign import Config, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import RecordSetAsideEvent
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, until
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.poisoned import POISON, count_good
from tests.worker.process import Process

INPUTS = 10_000
LETTERS_PARTITIONS = 2


def read_records(
    broker: str, topic: str, partitions: int = LETTERS_PARTITIONS
) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """Return key, value and headers of each record that a committed reader sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "reads-dead-letters",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ClientPartition(topic, partition, 0) for partition in range(partitions)])
    letters, at_end = [], set()
    while len(at_end) < partitions:
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
    """Exactly once, each once. At least once, a worker that is killed may count twice what it has not committed."""
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
        until(lambda: _counted(app) >= app.sent)
        bad = {b"word-%d" % (n % 97) for n in poison}
        until(lambda: len({_at(letter) for letter in read_records(broker, letters)}) >= len(poison))
        process.until_running(PARTITIONS)  # the last one may have nothing to do and still be starting
    finally:
        assert process.close() == 0
        app.stop()
    assert killed == 4
    written = read_records(broker, letters)
    assert len({_at(letter) for letter in written}) == len(poison)
    assert {(key, value) for key, value, _ in written} == {(word, POISON) for word in bad}
    assert {headers["__streams.errors.exception"] for _, _, headers in written} == {b"ValueError"}
    assert all(headers["__streams.errors.message"].startswith(b"offset") for _, _, headers in written)
    if guarantee == "exactly_once_v2":
        assert len(written) == len(poison)
        assert committed_outputs(app) == each_once(app)


def _counted(app: App) -> Counter[bytes]:
    """Return the largest total of each word in the output topic."""
    totals: Counter[bytes] = Counter()
    for key, value in committed_outputs(app):
        totals[key or b""] = max(totals[key or b""], int(value or b"0"))
    return totals


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


LIMIT_BYTES = 100_000
"""Of the output topic: larger than a batch of the small records, smaller than what the client lets pass."""


def copy_values(task: Task, records: Sequence[Record]) -> None:
    """Count each key, and emit its value."""
    totals = task.store("totals")
    for record in records:
        assert record.key is not None
        totals.put(record.key, b"%d" % (int(totals.get(record.key) or 0) + 1))
        task.emit(f"{record.topic}-out", record.key, (record.value or b"") * 3)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_inputs_of_outputs_that_are_too_large_become_dead_letters(app: App, guarantee: str) -> None:
    """One is too large for the topic, one for the client. At least once, the failed commits leave their writes."""
    letters, outputs = f"{app.name}-dead", f"{app.name}-out"
    admin = ClusterAdmin(app.broker)
    limit = {outputs: {"max.message.bytes": str(LIMIT_BYTES)}}
    admin.create_topics({letters: LETTERS_PARTITIONS, outputs: 1}, PATIENCE_S, configs=limit)
    config = Config(
        application_id=app.name,
        bootstrap_servers=app.broker,
        state_dir=str(app.folder / "state"),
        processing_guarantee=guarantee,
        errors_dead_letter_queue_topic_name=letters,
    )
    guilty = {b"word-20": bytes(50_000), b"word-70": bytes(600_000)}
    for number in range(100):
        key = b"word-%d" % number
        app.send_unflushed(key, guilty.get(key, b"small"))
    app.sent -= Counter(guilty.keys())
    app.send([])  # waits for those above
    running = Running(config, [Subtopology(copy_values, [app.name], ["totals"], [outputs], on_error="dead_letter")])
    app.workers.append(running)
    until(lambda: {key for key, _, _ in read_records(app.broker, letters, 2)} == guilty.keys())
    until(lambda: {key for key, _, _ in read_records(app.broker, outputs, 1)} == app.sent.keys())
    written = read_records(app.broker, letters, 2)
    assert {(key, value) for key, value, _ in written} == set(guilty.items())
    refused = b"kstreams_assign.errors.RecordRefused"
    assert {headers["__streams.errors.exception"] for _, _, headers in written} == {refused}
    assert running.error is None
    if guarantee == "exactly_once_v2":
        app.until_counted(read_committed=True)
        assert len(written) == 2
        assert len(read_records(app.broker, outputs, 1)) == app.sent.total()
