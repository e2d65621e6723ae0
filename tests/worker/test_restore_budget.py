"""How much of a processor the restore thread takes: a part beside running tasks, next to nothing without news."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future

import pytest

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.engine.restoring import Restores
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.restoring import QUIET_AFTER_S, QUIET_S, STEP_S, RestoreThread, rest_s
from tests.restore.logs import Log, LogReader, records

TASK = TaskId(0, 0)
CHANGELOG = TopicPartition("app-totals-changelog", 0)


class Waiting(LogReader):
    """Waits as a real reader does, and counts how often it was asked."""

    polls = 0

    def poll(self, timeout_s):
        self.polls += 1
        batches = super().poll(timeout_s)
        if not batches:
            threading.Event().wait(timeout_s)
        return batches


@pytest.fixture
def reader():
    return Waiting({CHANGELOG: Log(entries=records(10))})


@pytest.fixture
def thread(tmp_path, reader):
    directory = StateDirectory(tmp_path, "app", clock_ms=monotonic_ms)
    made = RestoreThread(
        TopologyShape((SubtopologyShape(("orders",), (Store("totals"),)),)),
        "app",
        Restorer(reader, now_ms=monotonic_ms),
        lambda task: open_task_stores(directory.task_path(task), ["totals"]),
        lambda partitions: dict.fromkeys(partitions, Position(0)),
        directory,
        OffsetSums(),
        EventLog("p", None),
    )
    yield made
    directory.close()


def test_a_copy_rests_as_long_as_it_worked_while_tasks_run_here():
    assert rest_s(0.003, 0, restoring=False, news=True, running=False) == 0
    assert rest_s(0.003, 0, restoring=False, news=True, running=True) == 0.003


def test_an_active_task_is_restored_with_shorter_rests_and_without_any_where_none_runs():
    assert rest_s(0.003, 0, restoring=True, news=True, running=False) == 0
    assert rest_s(0.003, 0, restoring=True, news=True, running=True) == 0.0015


@pytest.mark.parametrize("running", [False, True])
def test_the_thread_does_not_rest_while_an_active_task_waits_for_records(running):
    """The step waits for them instead, and ends with the first one."""
    for quiet_for_s in (0, QUIET_AFTER_S * 2):
        assert rest_s(0.003, quiet_for_s, restoring=True, news=False, running=running) == 0


def test_without_news_the_thread_rests_once_that_has_lasted_a_while():
    for running in (False, True):
        assert rest_s(0.003, QUIET_AFTER_S, restoring=False, news=False, running=running) == 0
        assert rest_s(0.003, QUIET_AFTER_S * 2, restoring=False, news=False, running=running) == QUIET_S


@pytest.mark.parametrize("running", [False, True])
def test_an_active_task_that_waits_costs_a_poll_for_each_step_although_another_task_runs(
    thread, reader, running, monkeypatch
):
    """An open transaction of another producer holds it back; once that ends, the task is handed out."""
    handed: queue.SimpleQueue[TaskId] = queue.SimpleQueue()
    ready = staticmethod(lambda task, stores, *_: (stores.close(), handed.put(task)))
    thread.receiver = type("Loop", (), {"ready": ready, "closed": staticmethod(lambda *_: None)})()
    monkeypatch.setattr(Restores, "running", running)
    reader.logs[CHANGELOG].held_back = 4
    working = threading.Thread(target=thread.run)
    working.start()
    try:
        thread.restore(TASK, None, [TopicPartition("orders", 0)])
        pause = threading.Event()
        while not (thread.progress().get(TASK) and thread.progress()[TASK].remaining == 4):
            pause.wait(0.01)
        before, began_s = reader.polls, time.monotonic()
        pause.wait(STEP_S * 30)
        polls, took_s = reader.polls - before, time.monotonic() - began_s
        assert 1 <= polls <= took_s / STEP_S + 5
        assert handed.empty()
        reader.logs[CHANGELOG].held_back = 0
        assert handed.get(timeout=60) == TASK
    finally:
        thread.stop()
        working.join()


def test_copies_without_news_are_looked_after_seldom_and_orders_do_not_wait_for_that(thread, reader):
    thread.receiver = type("NoReceiver", (), {"closed": staticmethod(lambda *_: None)})()
    working = threading.Thread(target=thread.run)
    working.start()
    try:
        thread.tail(TASK, None)
        pause = threading.Event()
        while not (thread.progress().get(TASK) and thread.progress()[TASK].done):
            pause.wait(0.01)
        pause.wait(QUIET_AFTER_S * 2)
        before, began_s = reader.polls, time.monotonic()
        pause.wait(QUIET_S * 10)
        polls, took_s = reader.polls - before, time.monotonic() - began_s  # longer where the machine is busy
        assert 1 <= polls <= took_s / QUIET_S + 2
        peeked: Future = Future()
        answered: queue.SimpleQueue[int] = queue.SimpleQueue()
        peeked.add_done_callback(lambda _: answered.put(reader.polls))  # by its thread, in the midst of its turn
        before = reader.polls
        thread.peek(TASK, "totals", b"key-1", peeked)
        assert peeked.result(60).value == b"value-1"
        assert answered.get(timeout=60) - before <= 2
    finally:
        thread.stop()
        working.join()
