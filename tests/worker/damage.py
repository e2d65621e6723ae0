"""A restore thread at work on real stores and files, over a changelog in memory; and a task folder to damage.

``test_damage`` uses it in its own process, ``damage_without_rights`` in one with fewer rights and less disk.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.engine.restoring import Restores
from kstreams_assign.events import (
    BaseEvent,
    Event,
    StoreDiscardedEvent,
    StoreWipedEvent,
    TaskResumedEvent,
    TaskStoppedEvent,
)
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Pacing, Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.restoring import RestoreThread
from tests.restore.logs import Log, LogReader

TASK, OTHER = TaskId(0, 3), TaskId(0, 4)
CHANGELOG, OTHERS = TopicPartition("app-totals-changelog", 3), TopicPartition("app-totals-changelog", 4)
TOTALS = Store("totals")
IN_TABLES, STORED, IN_LOG = 300, 400, 450
PATIENCE_S = 60.0
PACING = Pacing(missing_retry_ms=50, missing_reported_ms=100, leaderless_retry_ms=5, standby_ends_interval_ms=50)
E = TypeVar("E", bound=BaseEvent)
TASK_EVENTS = (TaskStoppedEvent, TaskResumedEvent, StoreDiscardedEvent, StoreWipedEvent)

BEFORE = """
import os, sys
from pathlib import Path
from kstreams_assign.adapters.rocksdb import open_task_stores
from tests.worker.damage import CHANGELOG, IN_TABLES, STORED, entries
stores = open_task_stores(Path(sys.argv[1]), ["totals"])
stores.identify({CHANGELOG.topic: "id-1"})
for at in range(0, STORED, 10):
    if at == IN_TABLES:
        stores.close()
        stores = open_task_stores(Path(sys.argv[1]), ["totals"])
    stores.write({"totals": entries(STORED)[at : at + 10]}, {CHANGELOG: at + 10})
os._exit(0)  # as a crash leaves it: tables, and a log with the rest
"""


def entries(count: int, salt: int = 0) -> list[tuple[bytes, bytes | None]]:
    """Return a changelog: keys come again, some are deleted. Values do not compress well."""
    return [
        (b"%04d" % (n * 7 % 311), None if n % 13 == 5 else b"%d" % (n + salt) + b"%x" % ((n + salt) ** 9) * 3)
        for n in range(count)
    ]


def left_by_a_crash(folder: Path) -> None:
    """Make the folder of a task that died at offset ``STORED`` of its changelog."""
    subprocess.run([sys.executable, "-c", BEFORE, str(folder)], check=True, timeout=110)


class QuietReader(LogReader):
    """Waits where there is nothing to read, as the real reader does."""

    def poll(self, timeout_s: float) -> Any:
        batches = super().poll(timeout_s)
        if not batches:
            threading.Event().wait(timeout_s)
        return batches


class Rig:
    """One process's restore thread, with the damaged task and another that must go on."""

    def __init__(self, root: Path, log: Log | None, store: Store = TOTALS, memory: RocksMemory | None = None) -> None:
        self.spoil: Callable[[Path], object] = lambda _: None
        """Done to the folder of the damaged task whenever it is about to be opened."""
        self.events: list[Event] = []
        self.handed: dict[TaskId, TaskStores | None] = {}
        self.closed_tasks: set[TaskId] = set()
        self._news = threading.Condition()
        self.reader = QuietReader({OTHERS: Log(entries=entries(50))} | ({} if log is None else {CHANGELOG: log}), 50)
        self.sums = OffsetSums()
        self.directory = StateDirectory(root, "app", clock_ms=monotonic_ms)
        self.warnings = _Warnings()
        self._store = store
        self._memory = memory or RocksMemory()  # its own cache: replicas of one folder look the same to a shared cache
        shape = TopologyShape((SubtopologyShape(("orders",), (store,)),))
        self.thread = RestoreThread(
            shape,
            "app",
            Restorer(self.reader, now_ms=monotonic_ms, pacing=PACING),
            self._open,
            lambda partitions: dict.fromkeys(partitions, Position(0)),
            self.directory,
            self.sums,
            EventLog("p", self._hear),
        )
        self.thread.receiver = self
        self.thread._engine = Restores(shape, "app", first_pause_ms=40)
        self._error: BaseException | None = None
        self._runs = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        logging.getLogger("kstreams_assign").addHandler(self.warnings)
        for task in (TASK, OTHER):
            self.directory.lock_task(task)
        self._runs.start()
        return self

    def __exit__(self, *_: object) -> None:
        for task, stores in self.handed.items():
            self.thread.close(task, stores, 1)
        self.thread.stop()
        self._runs.join(PATIENCE_S)
        logging.getLogger("kstreams_assign").removeHandler(self.warnings)
        for task in (TASK, OTHER):
            self.directory.release_task(task)
        self.directory.close()
        assert self._error is None, self._error

    def _run(self) -> None:
        try:
            self.thread.run()
        except BaseException as error:  # noqa: BLE001  # the test's thread raises it again
            self._error = error

    def _open(self, task: TaskId) -> TaskStores:
        path = self.directory.task_path(task)
        if task == TASK:
            self.spoil(path)
        timestamped = frozenset({self._store.name} if self._store.timestamped else ())
        return open_task_stores(path, [self._store.name], timestamped=timestamped, memory=self._memory)

    def ready(self, task: TaskId, stores: TaskStores | None, positions: object, restored: int) -> None:  # noqa: ARG002
        with self._news:
            self.handed[task] = stores
            self._news.notify_all()

    def closed(self, task: TaskId, _number: int) -> None:
        with self._news:
            self.closed_tasks.add(task)
            self._news.notify_all()

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def until(self, wanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while not (met := wanted()) and self._error is None and time.monotonic() < deadline:
                self._news.wait(0.02)  # some changes come without a notification
        assert self._error is None, self._error
        assert met, (self.reported(), self.warnings.lines)

    def until_running(self) -> None:
        """Begin, and wait until both tasks have been handed over."""
        self.begin()
        self.until(lambda: {TASK, OTHER} <= self.handed.keys())

    def take(self) -> TaskStores:
        """Return the stores of the damaged task, as the processor has them."""
        stores = self.handed.pop(TASK)
        assert stores is not None
        return stores

    def until_event(self, kind: type[E]) -> E:
        self.until(lambda: kind in self.reported())
        return next(event for event in self.events if isinstance(event, kind))

    def reported(self) -> list[type[Event]]:
        """Return the types of the damaged task's events, in order."""
        return [type(event) for event in self.events if isinstance(event, TASK_EVENTS) and event.task == str(TASK)]

    def begin(self, *tasks: TaskId) -> None:
        for task in tasks or (TASK, OTHER):
            self.thread.restore(task, None, [TopicPartition("orders", task.partition)])

    def contents(self, task: TaskId) -> tuple[dict[bytes, bytes], Mapping[TopicPartition, int]]:
        stores = self.handed[task]
        assert stores is not None
        return dict(stores.range("totals")), dict(stores.offsets())


class _Warnings(logging.Handler):
    """Log lines of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def check_stopped_then_cured(root: Path, log: Log, because: str, damage: Callable[[], Callable[[], object]]) -> None:
    """Check that the task stops with a reason and a remedy, that the other goes on, and that it resumes once mended.

    ``damage`` is done while the other task runs, and returns its cure.
    """
    with Rig(root, log) as rig:
        rig.begin(OTHER)
        rig.until(lambda: OTHER in rig.handed)
        cure = damage()
        rig.begin(TASK)
        check_it_stops_and_goes_on(rig, log, because, cure)


def check_it_stops_and_goes_on(rig: Rig, log: Log, because: str, cure: Callable[[], object]) -> None:
    """Check the same for a task that was given to the thread and cannot work."""
    stopped = rig.until_event(TaskStoppedEvent)
    assert because in stopped.reason, stopped
    assert str(rig.directory.task_path(TASK)) in stopped.reason, stopped
    assert stopped.retry_ms > 0
    rig.until(lambda: any(stop.pauses > 1 for stop in rig.thread.stopped().values()))  # the thread has tried it again
    assert rig.sums.report(owned_only=False).get(TASK) is None
    assert rig.reported() == [TaskStoppedEvent]
    assert len([line for line in rig.warnings.lines if "Task 0_3" in line]) == 1, rig.warnings.lines
    assert rig.contents(OTHER)[1]
    cure()
    rig.until(lambda: TASK in rig.handed)
    assert rig.reported() == [TaskStoppedEvent, TaskResumedEvent]
    assert rig.thread.stopped() == {}
    assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
