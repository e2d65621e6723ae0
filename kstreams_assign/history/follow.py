"""``history follow``: a Structured Streaming query whose every micro-batch becomes one batch of the tables.

What lives here: the order of steps in a batch, and the query's life. What must not: rows (``derive``), files
(``staging``, ``writing``), options of the source. The idea: Spark's checkpoint says which records a batch has, and
Spark repeats a batch that did not end; a batch that the tables have already is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.history.compaction import compact
from kstreams_assign.history.layout import STATES, Layout, held
from kstreams_assign.history.records import EndOffset, key_of
from kstreams_assign.history.sampling import Sampler
from kstreams_assign.history.session import spark_errors
from kstreams_assign.history.source import Broker, Source, fresh_groups, spread, states_as_records
from kstreams_assign.history.staging import COUNTS, NEWEST, STAGED_DDL, BatchJob, Staged, receive
from kstreams_assign.history.writing import Boundary, HistoryWriter, check_folder, no_boundary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FRESH_MS = 60_000
COMPACT_EVERY = 100
"""Batches between two looks at what can be merged."""

LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Settings:
    """How a run follows. ``once`` ends it when all that is there now is in the tables."""

    once: bool = False
    every_s: float = 5.0
    tasks: int | None = None
    """How many Spark tasks derive a batch; None: four for each core that is there, since groups differ in size."""


@dataclass(frozen=True)
class BatchReport:
    """What a batch did, for those who watch. ``newest_ms`` is the time of its newest record."""

    batch: int
    records: int
    rebalances: int
    newest_ms: int
    took_ms: int
    notes: tuple[str, ...] = ()


Watcher = Callable[[BatchReport], None]


class Batches:
    """What is done with each micro-batch; called by Spark, one at a time, on the driver."""

    def __init__(
        self,
        writer: HistoryWriter,
        tasks: int | None,
        sampler: Sampler | None,
        watch: Watcher,
        reached: Boundary = no_boundary,
    ) -> None:
        self._writer = writer
        self._tasks = tasks
        self._sampler = sampler
        self._watch = watch
        self._reached = reached

    def __call__(self, records: DataFrame, batch: int) -> None:
        from pyspark.errors import PySparkException

        started_ms = monotonic_ms()
        if batch <= self._writer.batch:
            return  # decided by a run that was killed before Spark noted it
        self._writer.refuse_other_writer()
        if batch % COMPACT_EVERY == 0:
            compact(self._writer, today(), self._reached)
        ends, note = self._ends(records)
        tasks = self._tasks or 4 * records.sparkSession.sparkContext.defaultParallelism  # executors come and go
        layout, states = self._writer.layout, self._writer.states()
        if layout.is_copy:
            try:
                staged = derive_there(records, BatchJob(None, batch, {}, ends), tasks, layout, states.values())
            except (PySparkException, OSError):
                self._writer.refuse_other_writer()  # another run may have deleted states that this batch reads
                raise
        else:
            staged = derive_batch(records, BatchJob(layout, batch, states, ends), tasks)
        self._reached("derived")
        self._writer.publish(batch, staged, self._reached)
        self._watch(_report(batch, staged, monotonic_ms() - started_ms, note))

    def _ends(self, records: DataFrame) -> tuple[Mapping[str, Sequence[EndOffset]], str]:
        if self._sampler is None:
            return {}, ""
        keys = [bytes(row.key) for row in fresh_groups(records, wall_ms() - FRESH_MS).collect()]
        return self._sampler.ends(group for key in keys if (group := key_of(key).group) is not None)


def derive_batch(records: DataFrame, job: BatchJob, tasks: int) -> list[Staged]:
    """Run the job on Spark; what its tasks have staged."""
    return [Staged(*row) for row in spread(records, tasks).mapInArrow(job, STAGED_DDL).collect()]


def derive_there(records: DataFrame, job: BatchJob, tasks: int, layout: Layout, states: Iterable[str]) -> list[Staged]:
    """Run the job on Spark where its tasks do not see the folder: the driver sends their files to the store.

    They wait on the executors' disks, and the driver takes those of one task at a time: all may be too much for it.
    ``states``: the files with the groups' states.
    """
    from pyspark import StorageLevel

    store, folder = layout.store, layout.table(STATES)
    before = states_as_records(records.sparkSession, [store.place(folder, path) for path in states])
    rows = spread(records, tasks, before).mapInArrow(job, STAGED_DDL).persist(StorageLevel.DISK_ONLY)
    try:
        rows.count()  # all tasks at once; the iterator alone would run one after the other
        return receive((Staged(*row) for row in rows.toLocalIterator()), layout)
    finally:
        rows.unpersist()


@contextmanager
def following(
    session: SparkSession,
    source: Source,
    layout: Layout,
    settings: Settings,
    *,
    sampler: Sampler | None = None,
    watch: Watcher = lambda _: None,
    reached: Boundary = no_boundary,
) -> Iterator[StreamingQuery]:
    """The query, running, for the block. It is stopped at the end; a batch under way is then repeated by the next run.

    Raises ``StateDirectoryLocked`` where another run has the folder, ``ConfigError`` for one without its checkpoint.
    """
    with held(layout):
        check_folder(layout)
        writer = HistoryWriter(layout, reached, source.topic_id if isinstance(source, Broker) else "")
        compact(writer, today(), reached)
        batches = Batches(writer, settings.tasks, sampler, watch, reached)
        query = _start(source.stream(session), batches, layout, settings)
        try:
            yield query
        finally:
            _stop(query)


def follow_until_done(
    query: StreamingQuery, layout: Layout, look: Callable[[StreamingQuery], None], enough: EndRequest | None = None
) -> None:
    """Wait for the query's end, or for ``enough``, looking at the query now and then.

    Raises what ended it, as an error of ours.
    """
    # Not query.awaitTermination: a signal that interrupts a JVM call leaves its answer to be read by the next call.
    waiting = enough or EndRequest()
    with spark_errors(layout.log):
        while query.isActive and not waiting.wait(LOOK_EVERY_S):
            look(query)
        if waiting.is_set():
            return
        query.awaitTermination()
        look(query)


def _start(records: DataFrame, batches: Batches, layout: Layout, settings: Settings) -> StreamingQuery:
    writer: Any = records.writeStream.foreachBatch(batches).option(
        "checkpointLocation", layout.store.place(layout.checkpoint)
    )
    if settings.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{settings.every_s} seconds")
    with spark_errors(layout.log):
        query: StreamingQuery = writer.start()
    return query


def _stop(query: StreamingQuery) -> None:
    """Stop it; if the brokers are lost, the query ends with its Spark (``spark.sql.streaming.stopTimeout``)."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        query.stop()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.util.concurrent.TimeoutException":
            raise


def _report(batch: int, staged: Sequence[Staged], took_ms: int, note: str) -> BatchReport:
    def total(table: str) -> int:
        return sum(part.amount for part in staged if part.table == table)

    newest_ms = max((part.amount for part in staged if part.table == NEWEST), default=0)
    return BatchReport(batch, total(COUNTS), total("rebalances"), newest_ms, took_ms, (note,) if note else ())


def today() -> str:
    """The present day (UTC), as it stands in the tables."""
    return datetime.now(UTC).date().isoformat()
