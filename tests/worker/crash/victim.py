"""A worker in its own process: recorded, killed at a point, or left to finish another's work.

It is forked from a process that has imported everything and has made no client. A message through a pipe closes it, and
it ends with the process that started it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import confluent_kafka

from kstreams_assign import Config, Event, Record, Task, Worker
from kstreams_assign.events import AssignedEvent, RunningEvent
from kstreams_assign.tasks.commit import AT_LEAST_ONCE, EXACTLY_ONCE, CommitEnd, CommitStep, Next, Outcome
from kstreams_assign.worker import working
from tests.worker.crash import app
from tests.worker.crash.calls import Watch, install
from tests.worker.crash.points import Point

BATCH_RECORDS = 4
FED = 12  # inputs a partition, sent in the middle of a rebalance
WRITTEN_BEFORE_CLOSE = 5  # batches in the stores
PURGED_BEFORE_CLOSE = 4  # requests to delete what is consumed,
WRITTEN_AT_MOST = 80  # if the purges do not come
CLOSE = "close"
RUNNING = "running"
ORPHANED = 3
STUCK_S = 100.0
"""Where all is well a process ends in seconds; one that lives so long says in its log where its threads stand."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a process has to do. ``watched``: its calls are counted.

    ``phase`` labels the calls until its tasks run, ``rebalance`` those from the first of the events ``breaks`` on;
    without it, the process closes by itself in the middle of its work. ``planted`` names a mistake to make. ``purges``:
    as in ``app.topology``.
    """

    config: Mapping[str, Any]
    log: str
    watched: bool = False
    phase: str = ""
    rebalance: str | None = None
    breaks: tuple[type[Event], ...] = ()
    feeds: bool = True
    point: Point | None = None
    planted: str | None = None
    purges: bool = False


class _Played:
    """The watched process's own events, as phases."""

    def __init__(self, part: Part, pipe: Connection, watch: Watch) -> None:
        self._part = part
        self._pipe = pipe
        self._watch = watch
        self._active: frozenset[str] = frozenset()
        self._running: set[str] = set()
        self._telling = threading.Lock()
        self._worker: Worker | None = None
        self._name = part.config["application_id"]
        self._feeder = confluent_kafka.Producer({"bootstrap.servers": part.config["bootstrap_servers"], "linger.ms": 0})

    def hear(self, event: Event) -> None:
        if isinstance(event, AssignedEvent):
            self._active = frozenset(event.active)
        elif isinstance(event, RunningEvent):
            self._running.add(event.task)
            if self._active <= self._running and self._watch.phase == self._part.phase:
                self._enter("commit")
                if self._part.feeds:  # a task may have finished its inputs before the last one ran
                    self._feed(BATCH_RECORDS, range(app.PARTITIONS))
        elif self._part.rebalance and isinstance(event, self._part.breaks):
            self._break(self._part.rebalance)

    def _break(self, phase: str) -> None:
        if self._watch.phase in {"commit", phase}:
            self._enter(phase)
            if not self._part.feeds:
                self._feed(FED, range(app.PARTITIONS))

    def work(self, task: Task, records: Sequence[Record], to: str | None = None) -> None:
        """Send more inputs with each batch, so that there is always more to do."""
        app.apply(task, records, to)
        if self._part.feeds and self._watch.phase == "commit":
            if self._part.rebalance or not self._seen_enough():
                self._feed(BATCH_RECORDS, [task.id.partition])
            else:
                self._enter("close")
                assert self._worker is not None
                self._worker.close()

    def _seen_enough(self) -> bool:
        written, purged = (self._watch.count("commit", name) for name in ("Rdict.write", "AdminClient.delete_records"))
        enough = WRITTEN_BEFORE_CLOSE
        if self._part.purges and purged < PURGED_BEFORE_CLOSE:
            enough = WRITTEN_AT_MOST
        return written >= enough

    def run(self) -> None:
        small_batches()
        if self._part.planted is not None:
            PLANTS[self._part.planted]()
        config = Config(**{**self._part.config, "max_poll_records": BATCH_RECORDS})
        topology = app.topology(self._name, self.work, purges=self._part.purges)
        self._worker = Worker(config, topology, on_event=self.hear)
        closed_by(self._pipe, self._close)
        self._worker.run()

    def _close(self) -> None:
        """Close the worker: the recording ends here."""
        self._watch.phase = "over"
        assert self._worker is not None
        self._worker.close()

    def _feed(self, count: int, partitions: Iterable[int]) -> None:
        """Send so many more inputs to each of these partitions, now."""
        for partition in partitions:
            for number in range(count):
                self._feeder.produce(self._name, b"", app.key_of(number), partition)
        assert not self._feeder.flush(50), "more inputs could not be sent"

    def _enter(self, phase: str) -> None:
        self._watch.phase = phase
        with self._telling:
            self._pipe.send(phase)


def small_batches() -> None:
    """Let a few inputs make many commits, and a few changelog records a restore in bulk and its end."""
    assert working.RESTORE_BATCH_RECORDS > BATCH_RECORDS
    working.RESTORE_BATCH_RECORDS = BATCH_RECORDS
    working.PACING = replace(working.PACING, rebuild_records=2 * BATCH_RECORDS)


def _ordered(table: Mapping[tuple[CommitStep, Outcome], Next], steps: Sequence[Next]) -> None:
    """Let a successful commit take its steps in this order."""
    assert isinstance(table, dict)
    table.update({(step, Outcome.OK): then for step, then in pairwise(steps) if isinstance(step, CommitStep)})


_C = CommitStep
PLANTS: Mapping[str, Callable[[], None]] = {
    "offsets before records": lambda: _ordered(
        AT_LEAST_ONCE, (_C.LEASE, _C.OFFSETS, _C.PRODUCE, _C.FLUSH, _C.STORE, CommitEnd.DONE)
    ),
    "store before changelog": lambda: _ordered(
        AT_LEAST_ONCE, (_C.LEASE, _C.STORE, _C.PRODUCE, _C.FLUSH, _C.OFFSETS, CommitEnd.DONE)
    ),
    "store before transaction": lambda: _ordered(
        EXACTLY_ONCE, (_C.LEASE, _C.BEGIN, _C.PRODUCE, _C.FLUSH, _C.OFFSETS, _C.STORE, _C.TRANSACTION, CommitEnd.DONE)
    ),
    "transaction without offsets": lambda: _ordered(
        EXACTLY_ONCE, (_C.LEASE, _C.BEGIN, _C.PRODUCE, _C.FLUSH, _C.TRANSACTION, _C.STORE, CommitEnd.DONE)
    ),
}
"""Mistakes that a commit could make; the checks have to report them."""


def closed_by(pipe: Connection, close: Callable[[], None]) -> None:
    """Close when the pipe says so; die with the process that started this one."""

    def listen() -> None:
        try:
            pipe.recv()
        except (EOFError, OSError):
            os._exit(ORPHANED)
        close()

    threading.Thread(target=listen, daemon=True).start()


def main(part: Part, pipe: Connection) -> None:
    """Run the process. Its recording goes through the pipe at its end; an error ends it with its trace in the log."""
    log = Path(part.log).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    sys.stderr = sys.stdout = log
    faulthandler.dump_traceback_later(STUCK_S, file=log)
    logging.basicConfig(stream=log, level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    if not part.watched:

        def hear(event: Event) -> None:
            if isinstance(event, RunningEvent):
                pipe.send(RUNNING)

        topology = app.topology(part.config["application_id"], purges=part.purges)
        worker = Worker(Config(**part.config), topology, on_event=hear)
        closed_by(pipe, worker.close)
        worker.run()
        return
    watch = Watch(part.point, part.phase)
    install(watch, part.config["state_dir"])
    _Played(part, pipe, watch).run()
    pipe.send(watch.seen())
