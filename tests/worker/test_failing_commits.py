"""Commits that fail on a real broker: tasks go on from their last commit; a permanent failure ends the worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from kstreams_assign import Record, Task
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import RecordRefused
from kstreams_assign.events import ClosedEvent, DeliveryFailedEvent, JoiningEvent, TaskFailedEvent
from kstreams_assign.local import LocalBroker
from tests.worker.app import PARTITIONS, App, count

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
LAST_STRAW = b"last straw"


@pytest.fixture
def own() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_a_broker_that_stands_still_fails_the_tasks_back_and_nothing_storms(own: LocalBroker, tmp_path: Path) -> None:
    armed = threading.Event()  # the record comes again after the failure, and is harmless then

    def count_and_stop(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        if armed.is_set() and any(record.value == LAST_STRAW for record in records):
            armed.clear()
            os.kill(own.pid, signal.SIGSTOP)

    app = App(own.bootstrap_servers, "standing-still", tmp_path)
    worker = app.start(
        1, count_and_stop, session_timeout_ms=24_000
    )  # records are given up after 16 s, the lease after 24
    worker.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted()
    app.until_committed()  # or that would be waited for first, and then the lease is over before the record is given up
    joined = len(worker.reported(JoiningEvent))
    armed.set()
    app.send_unflushed(b"word-1", LAST_STRAW)
    try:
        worker.until_event(TaskFailedEvent)
    finally:
        os.kill(own.pid, signal.SIGCONT)
    worker.until_running(PARTITIONS)
    assert len(worker.reported(DeliveryFailedEvent)) <= 2
    assert len(worker.reported(JoiningEvent)) - joined <= 1

    armed.set()
    app.send_unflushed(b"word-1", LAST_STRAW)
    worker.until(lambda _: own_is_stopped(own))
    started = time.monotonic()
    try:
        worker.worker.close()
        worker.until_event(ClosedEvent)
        took_s = time.monotonic() - started
    finally:
        os.kill(own.pid, signal.SIGCONT)
    assert took_s < 45, "not for as long as the client's own timeouts"
    app.stop()


def own_is_stopped(own: LocalBroker) -> bool:
    return bool(psutil.Process(own.pid).status() == psutil.STATUS_STOPPED)


def test_a_record_that_is_too_large_ends_the_worker_by_name(broker: str, tmp_path: Path) -> None:
    def swell(task: Task, records: Sequence[Record]) -> None:
        task.emit("too-large-counts", records[0].key, bytes(1_000))

    ClusterAdmin(broker).create_topics(
        {"too-large-counts": PARTITIONS}, 60, configs={"too-large-counts": {"max.message.bytes": "300"}}
    )
    app = App(broker, "too-large", tmp_path)
    app.send([b"k"])
    worker = app.start(1, swell)
    error = worker.until_error()
    assert isinstance(error, RecordRefused)
    assert "task 0_" in str(error)
    assert "too-large-counts-" in str(error)
    assert "1,001 bytes: raise max.message.bytes" in str(error)
    worker.stop()
