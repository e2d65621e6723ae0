"""A worker in its own process that counts words in a store in memory and in one on disk: they must always agree."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kstreams_assign import Record, Store, Task
from tests.worker.app import count
from tests.worker.process import main

CHANGELOG_CONFIG = {"min.insync.replicas": "1", "segment.ms": 3_600_000, "min.compaction.lag.ms": "60000"}
STORES = [Store("totals", in_memory=True, changelog_config=CHANGELOG_CONFIG), Store("kept")]


def count_twice(task: Task, records: Sequence[Record]) -> None:
    kept, totals = task.store("kept"), task.store("totals")
    for key in {record.key for record in records}:
        assert key is not None
        assert kept.get(key) == totals.get(key), (task.id, key, kept.get(key), totals.get(key))
    count(task, records)
    for key in {record.key for record in records}:
        assert key is not None
        kept.put(key, totals.get(key))


if __name__ == "__main__":
    main(sys.argv[1], count_twice, stores=STORES)
