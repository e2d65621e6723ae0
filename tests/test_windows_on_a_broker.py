"""The programs of ``docs/how-to/windows.md`` report of a backlog what they report of one record after the other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from kstreams_assign import Record, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from tests.test_examples import WITHIN_S, running
from tests.testing.test_windows_guide import BEGIN_MS, EXAMPLES, MINUTE_MS, play, rows
from tests.worker.app import until

TOPICS = {
    "hourly_windows.py": ("placed-orders", "hourly-orders", "late-orders"),
    "click_sessions.py": ("page-clicks", "click-sessions", "late-clicks"),
}


@pytest.mark.parametrize("example", TOPICS)
def test_a_backlog_has_the_results_of_one_record_after_the_other(broker: str, tmp_path: Path, example: str) -> None:
    random = Random(example)
    records = [(f"user-{random.randrange(20)}", 5 * number + random.randrange(-90, 90)) for number in range(1_000)]
    source, results, late = TOPICS[example]
    ClusterAdmin(broker).create_topics(dict.fromkeys(TOPICS[example], 1), WITHIN_S)
    with closing(RecordProducer(broker, delivery_timeout_ms=WITHIN_S * 1_000)) as producer:
        for key, minute in records:
            producer.produce(source, 0, key.encode(), b"home", timestamp_ms=BEGIN_MS + minute * MINUTE_MS)
        producer.flush(WITHIN_S)
    expected = play((EXAMPLES / example).read_text("utf-8"), records, 1_000, one_by_one=True)
    assert len(expected.results) > 100
    assert len(expected.late) > 100
    with closing(InputConsumer(broker, group_id="windows", read_committed=True)) as consumer:
        consumer.add({TopicPartition(topic, 0): 0 for topic in (results, late)})
        read: dict[str, list[Record]] = {results: [], late: []}

        def all_read() -> bool:
            for batch in consumer.poll(10_000, 0.1).values():
                for record in batch:
                    read[record.topic].append(record)
            return len(read[results]) >= len(expected.results) and len(read[late]) >= len(expected.late)

        with running(example, broker, folder=tmp_path) as process:
            until(all_read)
        assert process.returncode == 0
        all_read()
    assert rows(read[results]) == expected.results
    assert rows(read[late]) == expected.late
