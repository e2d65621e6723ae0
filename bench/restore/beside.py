"""What a running task feels of a copy that is restored beside it: ``python -m bench.restore.beside``.

One process, as in a worker: the real restore thread brings a copy to the end of a changelog, while a second thread
counts words in Python, as a running task does. Reported are the words per second and the longest silence of that
thread: alone, beside a copy, and beside an active task, whose budget is larger. Also: what 50 copies cost that have
nothing to read.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.restore.fill import Changelog, produce
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.restoring import RestoreThread
from kstreams_assign.worker.working import PACING, RESTORE_BATCH_RECORDS

STATEFUL = SubtopologyShape(("words",), (Store("totals"),))
UNLOGGED = SubtopologyShape(("more",), (Store("totals", logged=False),))
SHAPE = TopologyShape((STATEFUL, UNLOGGED))
LARGE, RUNNING = TaskId(0, 0), TaskId(1, 0)
COPIES = 50
QUIET_S = 5.0
WORDS = [b"word-%d" % (number * 7919 % 1_000) for number in range(500)]


class Ready:
    """Takes what is handed over."""

    def __init__(self) -> None:
        self.tasks: set[TaskId] = set()

    def ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, int], restored: int
    ) -> None:
        del positions, restored
        if stores is not None:
            stores.close()
        self.tasks.add(task)

    def closed(self, task: TaskId, number: int) -> None: ...


class Counting:
    """A thread that counts words until it is asked to end."""

    def __init__(self) -> None:
        self.words = 0
        self.longest_gap_s = 0.0
        self._ending = False
        self._thread = threading.Thread(target=self._run)
        self._began = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        totals: Counter[bytes] = Counter()
        before = time.monotonic()
        while not self._ending:
            for word in WORDS:
                totals[word] = totals.get(word, 0) + 1
            self.words += len(WORDS)
            now = time.monotonic()
            self.longest_gap_s, before = max(self.longest_gap_s, now - before), now

    def end(self) -> dict[str, float]:
        passed_s = time.monotonic() - self._began
        self._ending = True
        self._thread.join()
        return {"words_per_s": round(self.words / passed_s), "longest_gap_ms": round(self.longest_gap_s * 1000, 1)}


def main() -> None:
    """One JSON line for each measurement."""
    changelog, idle = Changelog(1_000_000), Changelog(COPIES, partitions=COPIES)
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        for topic in (changelog, idle):
            produce(broker.bootstrap_servers, topic)
        for what in ("alone", "copy", "active", "alone"):
            with restoring(broker.bootstrap_servers, changelog, Path(folder, f"{what}-{time.monotonic()}")) as there:
                facts = beside(*there, what)
            print(json.dumps({"beside": what, **facts}), flush=True)
        with restoring(broker.bootstrap_servers, idle, Path(folder, "idle")) as (thread, _):
            print(json.dumps(quiet(thread)), flush=True)


def beside(thread: RestoreThread, ready: Ready, what: str) -> dict[str, float]:
    """Count words until the large task is restored; alone: for a while."""
    counting, began = Counting(), time.monotonic()
    if what != "alone":
        order = thread.tail if what == "copy" else partial(thread.restore, inputs=())
        order(LARGE, None)
        await_that(lambda: LARGE in ready.tasks or caught_up(thread, {LARGE}))
    else:
        threading.Event().wait(QUIET_S)
    return {"seconds": round(time.monotonic() - began, 2), **counting.end()}


def quiet(thread: RestoreThread) -> dict[str, float]:
    """Processor time a second of copies that are at their ends."""
    copies = {TaskId(0, number) for number in range(COPIES)}
    for task in copies:
        thread.tail(task, None)
    await_that(lambda: caught_up(thread, copies))
    began = time.process_time()
    threading.Event().wait(QUIET_S)
    return {"copies_at_rest": COPIES, "cpu_ms_per_s": round((time.process_time() - began) * 1000 / QUIET_S, 1)}


def caught_up(thread: RestoreThread, tasks: set[TaskId]) -> bool:
    progress = thread.progress()
    return tasks <= progress.keys() and all(progress[task].done for task in tasks)


def await_that(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.02)


@contextmanager
def restoring(servers: str, changelog: Changelog, folder: Path) -> Iterator[tuple[RestoreThread, Ready]]:
    """A restore thread that has handed one task over, so that it counts as running here."""
    folder.mkdir(parents=True)
    admin = ClusterAdmin(servers)
    group = changelog.application
    reader = ConfluentChangelogReader(servers, group_id=group, admin=admin, max_records=RESTORE_BATCH_RECORDS)
    directory = StateDirectory(folder, group, clock_ms=monotonic_ms)
    thread = RestoreThread(
        SHAPE,
        group,
        Restorer(reader, now_ms=monotonic_ms, pacing=PACING),
        lambda task: open_task_stores(directory.task_path(task), ["totals"]),
        lambda partitions: dict.fromkeys(partitions, 0),
        directory,
        OffsetSums(),
        EventLog("bench", None),
    )
    thread.receiver = ready = Ready()
    working = threading.Thread(target=thread.run)
    working.start()
    try:
        thread.restore(RUNNING, None, ())
        await_that(lambda: RUNNING in ready.tasks)
        yield thread, ready
    finally:
        thread.stop()
        working.join()
        reader.close()
        directory.close()


if __name__ == "__main__":
    sys.exit(main())
