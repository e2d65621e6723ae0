"""The largest record that a broker with default settings takes goes through; a byte more is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from kstreams_assign import Record, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer, TransactionalProducer
from kstreams_assign.errors import RecordRefused
from kstreams_assign.sidecar.sidecar import RECORD_OVERHEAD_BYTES
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.worker.app import PARTITIONS, App, until

BATCH_BYTES_MAX = 1_048_588
"""A broker's default ``message.max.bytes``: Kafka's ``ServerLogConfigs.MAX_MESSAGE_BYTES_DEFAULT``."""
LARGEST = BATCH_BYTES_MAX - 61 - (3 + 1 + 1 + 1 + 1 + 3 + 1)
"""Key and value together, in a batch of one record without headers.

Subtracted are the batch's own 61 bytes, then the record's length, attributes, two deltas, the lengths of a key below 64
bytes and of the value, and the number of headers.
"""

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


def made(broker: str, guarantee: str, client: dict[str, str] | None = None) -> RecordProducer:
    if guarantee == "at_least_once":
        return RecordProducer(broker, client, delivery_timeout_ms=30_000)
    return TransactionalProducer(broker, client, group_id="g", transactional_id=uuid4().hex)


def send(producer: RecordProducer, at: TopicPartition, value: bytes) -> None:
    if isinstance(producer, TransactionalProducer):
        producer.begin(PATIENCE_S)
    producer.produce(*at, None, b"small")
    producer.produce(*at, None, value, track=True)
    assert producer.flush(PATIENCE_S).keys() == {at}
    if isinstance(producer, TransactionalProducer):
        producer.commit(PATIENCE_S)


@GUARANTEES
def test_the_largest_record_is_written_and_read_and_a_byte_more_is_refused(broker: str, guarantee: str) -> None:
    admin = ClusterAdmin(broker)
    at = TopicPartition(new_topic(admin, 1), 0)
    value = bytes(range(256)) * 4_096
    with closing(made(broker, guarantee)) as producer:
        send(producer, at, value[:LARGEST])
        with pytest.raises(RecordRefused, match=rf"{LARGEST + 1:,} bytes: raise max\.message\.bytes"):
            send(producer, at, value[: LARGEST + 1])
    with closing(InputConsumer(broker, group_id="g", read_committed=True)) as reader:
        reader.add({at: 0})
        values: list[bytes | None] = []

        def read() -> bool:
            values.extend(record.value for records in reader.poll(10, 0.5).values() for record in records)
            return len(values) >= 2

        until(read)
    assert values[:2] == [b"small", value[:LARGEST]]


@GUARANTEES
def test_a_smaller_limit_of_the_caller_is_kept(broker: str, guarantee: str) -> None:
    at = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    with (
        closing(made(broker, guarantee, {"message.max.bytes": "2000"})) as producer,
        pytest.raises(RecordRefused, match="2,001 bytes"),
    ):
        send(producer, at, bytes(2_001))


@GUARANTEES
def test_the_largest_value_goes_into_output_and_changelog_and_comes_back_from_there(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    app = App(broker, f"largest-{guarantee.replace('_', '-')}", tmp_path)
    extra = 0

    def write(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            value = record.key[:1] * (LARGEST - len(record.key) + extra)
            task.store("totals").put(record.key, value)
            task.emit(f"{record.topic}-counts", record.key, value)

    first = app.start(1, write, processing_guarantee=guarantee)
    app.send([b"abc"])
    app.until_committed()
    first.stop()
    second = app.start(
        2, write, processing_guarantee=guarantee
    )  # a state directory of its own: restored from the changelog
    second.until_running(PARTITIONS)
    assert second.worker.read("totals", b"abc") == b"a" * (LARGEST - 3)
    extra = 1
    app.send_unflushed(b"abd", b"x")
    error = second.until_error()
    assert isinstance(error, RecordRefused)
    assert f"{LARGEST + 1:,} bytes: raise max.message.bytes" in str(error)
    second.join()


def test_a_sidecar_refuses_early_only_what_could_not_be_written() -> None:
    assert 0 <= LARGEST - (BATCH_BYTES_MAX - RECORD_OVERHEAD_BYTES) <= 5
