"""Two topics are joined over a backlog: each record meets what is older than it in the other topic, nothing younger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.worker.polled_inputs import WAIT_MS
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, transactional
from tests.worker.app import Running, until

RECORDS = 6_000
KEYS = 50
STEP_MS = 2_000


def fill(broker: str, topic: str, first_ms: int, numbers: range) -> None:
    """Write values with these numbers, in transactions, whose markers take offsets at the ends of partitions, too."""
    producer = transactional(broker)
    producer.begin_transaction()
    for number in numbers:
        key = b"k%d" % (number % KEYS)
        producer.produce(topic, b"%d" % number, key, 0, timestamp=first_ms + number * STEP_MS)
        if len(producer) > 1_000:
            producer.poll(0)
    producer.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_backlog_is_joined_in_the_order_of_time_and_then_records_are_not_held_up(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    """Each purchase is a second younger than the price with its number, and older than the next one.

    Both ends are markers of transactions, behind which nothing is waited for.
    """
    admin = ClusterAdmin(broker)
    prices, purchases = new_topic(admin, 1), new_topic(admin, 1)
    joined: list[tuple[bytes | None, bytes | None]] = []

    def join(task: Task, records: Sequence[Record]) -> None:
        known = task.store("prices")
        for record in records:
            assert record.key is not None
            if record.topic == prices:
                known.put(record.key, record.value or b"")
            else:
                joined.append((record.value, known.get(record.key)))

    first_ms = wall_ms() - 2 * RECORDS * STEP_MS  # brokers delete what is a week old
    fill(broker, prices, first_ms, range(RECORDS))
    fill(broker, purchases, first_ms + STEP_MS // 2, range(RECORDS))
    config = Config(
        application_id=f"joins-{guarantee.replace('_', '-')}",
        bootstrap_servers=broker,
        state_dir=str(tmp_path),
        processing_guarantee=guarantee,
    )
    topology = [Subtopology(join, [prices, purchases], [Store("prices")], copartitioned=[[prices, purchases]])]
    running = Running(config, topology)
    try:
        until(lambda: len(joined) >= RECORDS)
        waited_s = []
        for number in range(RECORDS, RECORDS + 3):
            fill(broker, prices, first_ms, range(number, number + 1))
            fill(broker, purchases, first_ms + STEP_MS // 2, range(number, number + 1))
            began_s = time.monotonic()
            until(lambda: len(joined) > number)  # noqa: B023
            waited_s.append(time.monotonic() - began_s)
        assert min(waited_s) < WAIT_MS / 2_000, "each would last as long as a partition is waited for"
        assert joined == [(b"%d" % number, b"%d" % number) for number in range(RECORDS + 3)]
    finally:
        running.stop()
    assert running.error is None
