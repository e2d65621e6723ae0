"""The driver and a worker on a real broker give the same outputs and stores for the same topology and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import (
    Config,
    Record,
    Repartition,
    Store,
    Subtopology,
    Task,
    TopicPartition,
    TopologyTestDriver,
    ValueAndTime,
)
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.tasks.stamped import value_and_time
from tests.worker.app import PATIENCE_S, Running, until

WORDS, TOTALS = 3, 2
"""Partitions of the topic between the subtopologies, and of the output."""
LINES = [(b"line-%d" % n, b"to be or not to be %d" % (n % 7), 1_700_000_000_000 + n) for n in range(200)]
WRITTEN = sum(len(value.split()) for _, value, _ in LINES)
HEADERS: list[tuple[str, bytes | None]] = [("from", b"test"), ("empty", None)]

Outputs = dict[bytes | None, list[tuple[int, bytes | None, int, object]]]
"""Key -> partition, value, time and headers of its records, in order; tasks write side by side on a broker."""
Entries = dict[int, list[tuple[bytes, ValueAndTime[bytes]]]]


def split(task: Task, lines: Sequence[Record]) -> None:
    for line in lines:
        for word in (line.value or b"").split():
            task.emit("words", word, b"")


def counting(totals: str) -> Callable[[Task, Sequence[Record]], None]:
    def count(task: Task, words: Sequence[Record]) -> None:
        counts = task.timestamped_store("counts")
        for word in words:
            assert word.key is not None
            total = int(counts.get(word.key) or 0) + 1
            counts.put(word.key, b"%d" % total)
            if word.key == b"3" and total % 4 == 0:
                counts.delete(word.key)
            task.emit(totals, word.key, None if word.key == b"6" else b"%d" % total)

    return count


def topology(lines: str, totals: str) -> list[Subtopology]:
    """One partition of lines, so that the order of words, and with it each time and header, is known."""
    words, counts = Repartition("words", WORDS), Store("counts", timestamped=True)
    return [
        Subtopology(split, sources=[lines], sinks=["words"]),
        Subtopology(counting(totals), repartition_sources=[words], stores=[counts], sinks=[totals]),
    ]


def outputs(records: Sequence[Record]) -> Outputs:
    by_key: Outputs = {}
    for each in records:
        by_key.setdefault(each.key, []).append((each.partition, each.value, each.timestamp_ms, each.headers))
    return by_key


def in_the_driver(guarantee: str) -> tuple[Outputs, Entries]:
    partitions = {"totals": TOTALS}
    with TopologyTestDriver(
        topology("lines", "totals"), partitions=partitions, processing_guarantee=guarantee
    ) as driver:
        for number, (key, value, time_ms) in enumerate(LINES):
            driver.pipe("lines", key, value, time_ms, headers=HEADERS if number % 2 else ())
        written = outputs(driver.read("totals"))
        return written, {
            partition: list(driver.timestamped_store("counts", partition).range_with_timestamps())
            for partition in range(WORDS)
        }


def on_a_broker(broker: str, name: str, folder: Path, guarantee: str) -> tuple[Outputs, Entries]:
    lines, totals = f"{name}-lines", f"{name}-totals"
    ClusterAdmin(broker).create_topics({lines: 1, totals: TOTALS}, PATIENCE_S)
    config = Config(
        application_id=name, bootstrap_servers=broker, state_dir=str(folder), processing_guarantee=guarantee
    )
    running = Running(config, topology(lines, totals))
    try:
        running.until_running(1 + WORDS)
        with closing(RecordProducer(broker, delivery_timeout_ms=60_000)) as producer:
            for number, (key, value, time_ms) in enumerate(LINES):
                producer.produce(lines, 0, key, value, HEADERS if number % 2 else (), time_ms)
            producer.flush(PATIENCE_S)
        written: list[Record] = []
        with closing(InputConsumer(broker, group_id="compares", read_committed=True)) as consumer:
            consumer.add({TopicPartition(totals, partition): 0 for partition in range(TOTALS)})

            def all_written() -> bool:
                for records in consumer.poll(10_000, 0.1).values():
                    written.extend(records)
                return len(written) >= WRITTEN

            until(all_written)
    finally:
        running.stop()
    return outputs(written), {partition: stored(folder, partition) for partition in range(WORDS)}


def stored(folder: Path, partition: int) -> list[tuple[bytes, ValueAndTime[bytes]]]:
    """Return what a worker that has ended left on disk."""
    (path,) = folder.rglob(f"1_{partition}")
    with closing(open_task_stores(path, ["counts"], timestamped=frozenset({"counts"}))) as stores:
        return [(key, value_and_time(value)) for key, value in stores.range("counts")]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_outputs_and_stores_are_those_of_a_worker(broker: str, tmp_path: Path, guarantee: str) -> None:
    of_driver = in_the_driver(guarantee)
    assert sum(map(len, of_driver[0].values())) == WRITTEN
    assert of_driver == on_a_broker(broker, f"as-a-worker-{guarantee.replace('_', '-')}", tmp_path, guarantee)
