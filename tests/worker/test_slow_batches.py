"""Functions that take long or write much.

Commits go on, transactions stay within their timeout, and batches adapt their size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kstreams_assign import Record, Task, TopicPartition
from kstreams_assign.adapters.confluent import CommittedOffsets
from kstreams_assign.events import AdoptedEvent, BatchLimitedEvent, StalledEvent, TransactionAbortedEvent
from kstreams_assign.worker.locating import partition_of
from tests.worker.app import PARTITIONS, PATIENCE_S, App, count, until

EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2", "commit_interval_ms": 100}


def work_for(seconds: float) -> None:
    """As a function that waits for a server: others may run meanwhile."""
    threading.Event().wait(seconds)


def slowly(seconds: float) -> Callable[[Task, Sequence[Record]], None]:
    """Counts as ``count`` does, and each record takes so long."""

    def count_slowly(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            work_for(seconds)
            count(task, [record])

    return count_slowly


def test_exactly_once_a_slow_function_gets_smaller_batches_and_commits_between_them(
    broker: str, tmp_path: Path
) -> None:
    app = App(broker, "slow-function", tmp_path)
    app.send([b"one key, one partition"] * 2_500)  # at 6 ms a batch of them outlives a transaction of 10 s
    worker = app.start(1, slowly(0.006), **EXACTLY_ONCE)
    worker.until_event(BatchLimitedEvent)
    app.until_counted(read_committed=True)
    app.until_committed()
    assert worker.reported(TransactionAbortedEvent) == []
    limited = worker.reported(BatchLimitedEvent)[0]
    assert limited.records <= 250 / 6
    assert "records took" in limited.limit
    app.stop()


@pytest.mark.parametrize("computing", [False, True])
def test_exactly_once_a_commit_ends_while_the_next_call_is_still_at_work(
    broker: str, tmp_path: Path, *, computing: bool
) -> None:
    app = App(broker, f"beside-a-call-{computing}".lower(), tmp_path)
    committed, offsets = threading.Event(), CommittedOffsets(broker, None, group_id=app.name)
    partition = TopicPartition(app.name, partition_of(b"a key", PARTITIONS))

    def watch() -> None:
        until(lambda: offsets.read([partition], PATIENCE_S).get(partition) == 1)
        committed.set()

    def count_and_wait(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        if records[0].offset == 0:
            work_for(0.3)  # longer than the commit interval, so a commit begins when this call returns
        elif records[0].offset == 1:
            threading.Thread(target=watch, daemon=True).start()
            deadline = time.monotonic() + PATIENCE_S
            while not committed.wait(0 if computing else 0.05):
                assert time.monotonic() < deadline, "the commit waits for this call"

    app.send([b"a key"] * 2)
    worker = app.start(1, count_and_wait, max_poll_records=1, **EXACTLY_ONCE)
    app.until_counted(read_committed=True)
    assert worker.error is None
    assert worker.reported(TransactionAbortedEvent) == []
    app.stop()
    offsets.close()


def test_exactly_once_a_function_that_sends_much_gets_smaller_batches(broker: str, tmp_path: Path) -> None:
    page = bytes(100_000)

    def send_much(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        for record in records:
            for _ in range(12):
                task.emit(f"{record.topic}-counts", record.key, page)

    app = App(broker, "much-output", tmp_path)
    app.send([b"key-%d" % number for number in range(240)])
    worker = app.start(1, send_much, **EXACTLY_ONCE)
    app.until_counted(read_committed=True)
    app.until_committed()
    assert worker.reported(TransactionAbortedEvent) == []
    limited = worker.reported(BatchLimitedEvent)[0]
    assert "max_poll_bytes = 16777216" in limited.limit
    assert limited.records <= (16 << 20) // (12 * len(page))
    app.stop()


def test_at_least_once_slow_records_never_keep_the_member_from_its_signs_of_life(broker: str, tmp_path: Path) -> None:
    app = App(broker, "slow-poll", tmp_path)
    app.send([b"one key, one partition"] * 60)
    worker = app.start(1, slowly(0.2), max_poll_interval_ms=5_000)  # 60 records of 0.2 s take longer
    worker.until_running(PARTITIONS)
    app.until_counted()
    assert worker.reported(StalledEvent) == []
    assert len(worker.reported(AdoptedEvent)) == 1
    app.stop()


def test_no_batch_has_more_than_max_poll_records(broker: str, tmp_path: Path) -> None:
    sizes: list[int] = []

    def note(task: Task, records: Sequence[Record]) -> None:
        sizes.append(len(records))
        count(task, records)

    app = App(broker, "max-poll-records", tmp_path)
    app.send([b"one key, one partition"] * 1_000)
    app.start(1, note, max_poll_records=100)
    app.until_counted()
    assert max(sizes) == 100
    app.stop()
