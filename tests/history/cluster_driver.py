"""``python -m tests.history.cluster_driver MASTER MARKS CONF EXECUTORS``: a driver of ``history follow`` as a process.

It waits for so many executors, and prints how many there are. It takes runs from standard input, one JSON object a
line, and prints a JSON line for each batch, and one at the end of each run. All runs share one Spark.

MARKS is a folder. A file ``kill-executor`` there makes the next Spark task kill its executor once all its files are
written, and ``kill-driver`` makes this process die when the tables are half written.
Each executor leaves a file there that says where its package is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import kstreams_assign
from kstreams_assign.history import follow
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.source import Broker
from kstreams_assign.history.staging import BatchJob
from tests.history.cluster import START_LIMIT_S
from tests.worker.app import until

KILL_EXECUTOR, KILL_DRIVER = "kill-executor", "kill-driver"
HALF_WRITTEN = "published task_placements"


@dataclass(frozen=True)
class MarkingJob:
    """A job that leaves a mark of its executor, and kills it if a mark asks for that."""

    job: BatchJob
    marks: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the job first; then all files of this task are written, and no list of them has left it."""
        staged = list(self.job(batches))
        executor = next(process for process in psutil.Process().parents() if process.name() == "java")
        Path(self.marks, f"executor-{executor.pid}").write_text(kstreams_assign.__file__, encoding="utf-8")
        try:
            Path(self.marks, KILL_EXECUTOR).unlink()
        except FileNotFoundError:
            yield from staged
        else:
            os.kill(executor.pid, signal.SIGKILL)


def main(master: str, marks: str, conf: str, executors: str) -> None:
    """Start Spark, then do each run that standard input names."""
    follow.BatchJob = lambda *fields: MarkingJob(BatchJob(*fields), marks)  # type: ignore[assignment,misc]
    with spark_session(master, log=Path(marks, "driver.log"), settings=json.loads(conf)) as session:
        tracker = session.sparkContext._jsc.sc().statusTracker()
        until(lambda: len(tracker.getExecutorInfos()) > int(executors), START_LIMIT_S)  # the driver is listed, too
        print_line({"executors": len(tracker.getExecutorInfos()) - 1})
        for line in sys.stdin:
            asked = json.loads(line)
            layout, source = Layout(Path(asked["out"])), Broker(**asked["source"])
            settings = follow.Settings(**asked["settings"])
            with follow.following(
                session, source, layout, settings, watch=print_batch, reached=lambda where: _die(where, Path(marks))
            ) as query:
                follow.follow_until_done(query, layout, lambda _: None)
            print_line({"ended": asked["out"]})


def print_batch(report: follow.BatchReport) -> None:
    print_line({"batch": report.batch, "records": report.records})


def print_line(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _die(where: str, marks: Path) -> None:
    if where == HALF_WRITTEN and (marks / KILL_DRIVER).exists():
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
