"""``python -m bench.history.driver JSON``: read a topic plainly, then follow it, on one Spark; print one JSON line.

A process of its own, as one process has one Spark. A small topic goes first through both, so that Spark's Python
workers run and the JVMs are warm.
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


def main(given: str) -> None:
    """Take ``master``, ``conf``, ``out``, and the sources ``warm`` and ``fleet``, fields of ``source.Broker``."""
    asked = json.loads(given)
    out, warm, fleet = Path(asked["out"]), Broker(**asked["warm"]), Broker(**asked["fleet"])
    with spark_session(asked["master"], log=Path(f"{out}.log"), settings=asked["conf"]) as session:
        read_plainly(session, warm)
        follow(session, warm, Layout(Path(f"{out}-warm")))
        read_s = read_plainly(session, fleet)
        started = time.perf_counter()
        reports = follow(session, fleet, Layout(out))
        followed_s = time.perf_counter() - started
    totals: dict[str, Any] = {
        "records": sum(report.records for report in reports),
        "generations": sum(report.rebalances for report in reports),
        "batches": len(reports),
    }
    print(json.dumps({**totals, "read_s": read_s, "followed_s": followed_s}))


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
    """The reports of all batches until everything present is in the tables."""
    reports: list[BatchReport] = []
    with following(session, source, layout, Settings(once=True), watch=reports.append) as query:
        follow_until_done(query, layout, lambda _: None)
    return reports


if __name__ == "__main__":
    main(*sys.argv[1:])
