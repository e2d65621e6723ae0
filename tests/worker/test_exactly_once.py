"""Exactly once on a real broker: what committed readers see is each input's effect, once, whoever was killed or asleep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from tests.worker.app import PARTITIONS, App
from tests.worker.transacting import SETTINGS, Process

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    found = App(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)
    yield found
    found.stop()


def committed_outputs(app: App) -> Counter[tuple[bytes, bytes]]:
    """All that a committed reader finds in the output topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": app.broker,
            "group.id": "reads-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ClientPartition(f"{app.name}-counts", p, 0) for p in range(PARTITIONS)])
    found: Counter[tuple[bytes, bytes]] = Counter()
    ends = 0
    while ends < PARTITIONS:
        for message in consumer.consume(1_000, 1.0):
            if message.error():
                ends += 1
            else:
                found[message.key(), message.value()] += 1
    consumer.close()
    return found


def assert_each_once(app: App) -> None:
    """Each word's outputs are 1, 2, 3, ... up to how often it was sent."""
    app.until_counted(timeout_s=60, read_committed=True)
    wanted = {(word, b"%d" % n): 1 for word, times in app.sent.items() for n in range(1, times + 1)}
    assert committed_outputs(app) == wanted


def test_totals_are_exact_and_nothing_is_aborted_while_workers_come_and_go(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **SETTINGS)
    first.until_running(PARTITIONS)
    second = app.start(2, **SETTINGS)
    app.send(WORDS)
    second.until_running(PARTITIONS // 2)
    app.send(WORDS)
    second.stop()
    first.until_running(PARTITIONS)
    assert_each_once(app)
    assert not first.named("transaction_aborted") + second.named("transaction_aborted")


@pytest.mark.parametrize("point", ["offsets-sent", "committed"])
def test_a_worker_killed_in_a_commit_leaves_nothing_twice_and_nothing_out(app: App, point: str) -> None:
    """Its successor has another id, so it waits until the broker has ended the transaction that is left open."""
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "killed", point) as killed:
        killed.until_stopped()
        killed.kill()
    app.send(WORDS)
    app.start(1, **SETTINGS)
    assert_each_once(app)


def test_a_restart_takes_back_what_its_predecessor_had_begun(app: App) -> None:
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "state-1", "offsets-sent") as killed:
        killed.until_stopped()
        killed.kill()
    app.start(1, **SETTINGS)
    assert_each_once(app)


@pytest.mark.parametrize("point", ["begun", "offsets-sent"])
def test_a_worker_that_slept_past_its_session_writes_nothing_that_counts(app: App, point: str) -> None:
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "asleep", point) as asleep:
        asleep.until_stopped()
        awake = app.start(1, **SETTINGS)
        awake.until_event("running")
        app.send(WORDS)
        asleep.wake()
        asleep.until_event("lost")
        assert_each_once(app)
