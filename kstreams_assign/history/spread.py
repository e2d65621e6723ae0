"""Work that needs no data, spread over Spark's workers: a function, its arguments, and the answers in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from kstreams_assign.history.session import spark_errors, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def spread(work: Callable[[Item], Answer], items: Sequence[Item], master: str) -> list[Answer]:
    """``[work(item) for item in items]``, on a Spark of its own. The workers must be able to import ``work``'s module.

    Raises ``SparkError`` where Spark is missing or gives up, ``ConfigError`` for a master that is none.
    """
    print("starting Spark, which takes some seconds", file=sys.stderr, flush=True)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "spark.log"
        with spark_session(master, log=log, kafka=False) as session:
            return dealt(session, work, items, log)


def dealt(session: SparkSession, work: Callable[[Item], Answer], items: Sequence[Item], log: Path) -> list[Answer]:
    """On a session that is there. Raises what ``spark_errors`` does."""
    context = session.sparkContext
    parts = max(1, min(len(items), 4 * context.defaultParallelism))
    with spark_errors(log):
        return context.parallelize(items, parts).map(work).collect()
