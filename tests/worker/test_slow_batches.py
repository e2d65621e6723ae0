"""Functions that take long or write much: commits go on, transactions stay within their timeout, and batches find their size."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kstreams_assign import Record, Task
from tests.worker.app import PARTITIONS, App, count

EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2", "commit_interval_ms": 100}


def work_for(seconds: float) -> None:
    """As a function that waits for a server: others may run meanwhile."""
    threading.Event().wait(seconds)


def compute_for(seconds: float) -> None:
    """As a function that computes in Python: it keeps the interpreter's lock."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def slowly(cost: Callable[[float], None], seconds: float) -> Callable[[Task, Sequence[Record]], None]:
    """Counts as ``count`` does, and each record costs so much."""

    def count_slowly(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            cost(seconds)
            count(task, [record])

    return count_slowly


def test_exactly_once_a_slow_function_gets_smaller_batches_and_commits_between_them(
    broker: str, tmp_path: Path
) -> None:
    app = App(broker, "slow-function", tmp_path)
    app.send([b"one key, one partition"] * 2_500)  # at 6 ms a batch of them outlives a transaction of 10 s
    worker = app.start(1, slowly(work_for, 0.006), **EXACTLY_ONCE)
    worker.until_event("batch_limited")
    app.until_counted(read_committed=True)
    app.until_committed()
    assert worker.named("transaction_aborted") == []
    limited = worker.named("batch_limited")[0]
    assert limited["records"] <= 250 / 6
    assert "records took" in limited["limit"]
    app.stop()


@pytest.mark.parametrize("cost", [work_for, compute_for])
def test_exactly_once_a_commit_goes_on_beside_a_record_that_takes_long(
    broker: str, tmp_path: Path, cost: Callable[[float], None]
) -> None:
    app = App(broker, f"slow-record-{cost.__name__.replace('_', '-')}", tmp_path)
    app.send([b"one key, one partition"] * 6)
    worker = app.start(1, slowly(cost, 4), **EXACTLY_ONCE)  # a commit has more steps than fit into 10 s one call each
    app.until_counted(read_committed=True)
    app.until_committed()
    assert worker.named("transaction_aborted") == []
    app.stop()


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
    assert worker.named("transaction_aborted") == []
    limited = worker.named("batch_limited")[0]
    assert "max_poll_bytes = 16777216" in limited["limit"]
    assert limited["records"] <= (16 << 20) // (12 * len(page))
    app.stop()


def test_at_least_once_slow_records_never_keep_the_member_from_its_signs_of_life(broker: str, tmp_path: Path) -> None:
    app = App(broker, "slow-poll", tmp_path)
    app.send([b"one key, one partition"] * 60)
    worker = app.start(1, slowly(work_for, 0.2), max_poll_interval_ms=5_000)  # 60 records of 0.2 s take longer
    worker.until_running(PARTITIONS)
    app.until_counted()
    assert worker.named("stalled") == []
    assert len(worker.named("adopted")) == 1
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
