"""A group has no lag behind the markers of transactions, and loses nothing when the brokers delete what it has read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.allowed_values import GUARANTEES
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, transactional
from tests.adapters.test_confluent_inputs import delete_before
from tests.adapters.test_confluent_transactions import committed_offset
from tests.worker.app import Running, until


def write(broker: str, at: TopicPartition, *values: bytes, aborted: int = 0) -> None:
    """Write values in a transaction, and then so many records in one that is aborted."""
    producer = transactional(broker)
    for batch, end in ((values, producer.commit_transaction), ([b"no"] * aborted, producer.abort_transaction)):
        producer.begin_transaction()
        for value in batch:
            producer.produce(at.topic, value, b"k", at.partition)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_comes_after_deleted_input_is_read_also_from_the_latest_offset_on(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    """Once with aborted records at the end, which are input at least once unless ``isolation.level`` says otherwise."""
    admin, seen = ClusterAdmin(broker), list[bytes | None]()
    at = TopicPartition(new_topic(admin, 1), 0)

    def see(_task: Task, records: Sequence[Record]) -> None:
        seen.extend(record.value for record in records)

    group = f"passing-{guarantee.replace('_', '-')}"
    config = Config(
        application_id=group,
        bootstrap_servers=broker,
        state_dir=str(tmp_path),
        processing_guarantee=guarantee,
        auto_offset_reset="latest",
        client={"isolation.level": "read_committed"},
    )
    running = Running(config, [Subtopology(see, [at.topic])])
    try:
        running.until_running(1)
        write(broker, at, b"1", b"2", aborted=3)
        end = admin.bounds([at], PATIENCE_S)[at][1]
        assert end == 7, "five records and two markers"
        until(lambda: committed_offset(broker, group, at) == end)
    finally:
        running.stop()
    delete_before(broker, at, end)
    write(broker, at, b"3", b"4")
    running = Running(config, [Subtopology(see, [at.topic])])
    try:
        until(lambda: seen == [b"1", b"2", b"3", b"4"])
    finally:
        running.stop()
