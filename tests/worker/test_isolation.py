"""``isolation.level`` under ``client``: at least once it decides whether records of aborted transactions are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.confluent_cluster import PATIENCE_S, transactional
from tests.worker.app import App

SETTINGS = {
    "by-default": ({}, {b"aborted": 1}),
    "uncommitted": ({"isolation.level": "read_uncommitted"}, {b"aborted": 1}),
    "committed": ({"isolation.level": "read_committed"}, {}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_at_least_once_reads_aborted_records_unless_the_caller_says_otherwise(
    broker: str, tmp_path: Path, case: str
) -> None:
    client, aborted = SETTINGS[case]
    app = App(broker, f"isolation-{case}", tmp_path)
    producer = transactional(broker)
    for word, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(app.name, b"x", word, 0)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    app._producer.produce(app.name, 0, b"last", b"x")
    app._producer.flush(PATIENCE_S)
    app.sent.update({b"committed": 1, b"last": 1, **aborted})
    worker = app.start(1, client=client)
    app.until_counted()
    worker.stop()
