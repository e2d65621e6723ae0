"""``python -m bench.history.driver JSON``: follow a topic on one Spark; print a JSON line a batch, then the totals.

A process of its own, as one process has one Spark. If ``plainly`` is asked for, it reads the topic plainly before, and
a small topic goes first through both, so that Spark's Python workers run and the JVMs are warm.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstreams_assign.history.follow import BatchReport, Settings, follow_until_done, following
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.source import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDED = "followed_s"
"""Only the last line has it."""


def main(given: str) -> None:
    """Take ``master``, ``conf``, ``out``, the source ``fleet``, and for ``plainly`` another source, ``warm``.

    Sources have the fields of ``source.Broker``.
    """
    asked = json.loads(given)
    out, fleet = Path(asked["out"]), Broker(**asked["fleet"])
    totals: dict[str, Any] = {}
    with spark_session(asked["master"], log=Path(f"{out}.log"), settings=asked["conf"]) as session:
        if asked["plainly"]:
            warm = Broker(**asked["warm"])
            read_plainly(session, warm)
            follow(session, warm, Layout(Path(f"{out}-warm")))
            totals["read_s"] = read_plainly(session, fleet)
        started = time.perf_counter()
        reports = follow(session, fleet, Layout(out))
        totals[ENDED] = time.perf_counter() - started
    totals["records"] = sum(report.records for report in reports)
    totals["generations"] = sum(report.rebalances for report in reports)
    totals["batches"] = len(reports)
    print_line(totals)


def print_line(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def read_plainly(session: SparkSession, source: Broker) -> float:
    """Seconds in which Spark reads the topic and adds up the sizes of its records."""
    options = {
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "assign": json.dumps({source.topic: list(range(source.partitions))}),
        "startingOffsets": "earliest",
    }
    started = time.perf_counter()
    records = session.read.format("kafka").options(**options).load()
    records.selectExpr("sum(length(key) + length(value))").collect()
    return time.perf_counter() - started


def follow(session: SparkSession, source: Broker, layout: Layout) -> list[BatchReport]:
    """Print a line for each batch until everything present is in the tables; return all reports."""
    reports: list[BatchReport] = []

    def watch(report: BatchReport) -> None:
        reports.append(report)
        print_line({"batch": report.batch, "records": report.records, "took_ms": report.took_ms})

    with following(session, source, layout, Settings(once=True), watch=watch) as query:
        follow_until_done(query, layout, lambda _: None)
    return reports


if __name__ == "__main__":
    main(*sys.argv[1:])
