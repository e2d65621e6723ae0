"""What one Spark task does with its share of a batch: derive group by group, and leave the rows in files of its own.

What lives here: the function that runs on Spark's executors, and the files it stages. What must not: deciding what
readers see (``writing`` does, on the driver). The idea: records come sorted by bucket, group and offset, so a task
holds one group's records at a time. Rows go straight from Arrow to Parquet; only a list of the files goes back through
Spark. Files of a task that failed, or ran twice, are in no list. Where tasks cannot reach the tables' folder, Spark
brings them the states as the first record of each bucket, and takes their files back in pieces.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kstreams_assign.history.derive import derive, derive_strangers
from kstreams_assign.history.layout import STATES, Layout
from kstreams_assign.history.records import EndOffset, RawRecords, key_of
from kstreams_assign.history.schemas import SCHEMAS, STATE, arrow_table
from kstreams_assign.history.tables import Columns, Tables, empty_tables, joined_tables
from kstreams_assign.history.times import DAY_MS

ROWS_KEPT = 50_000
"""Rows that a task collects before it writes them out."""

PIECE_BYTES = 4 << 20
"""How much of a file goes back through Spark at once."""

STATES_PLACE = -1
"""The partition and offset of a record whose value is the file of a bucket's states. It has no route."""

STAGED = pa.schema(
    [
        ("table", pa.string()),
        ("part", pa.string()),
        ("path", pa.string()),
        ("amount", pa.int64()),
        ("size", pa.int64()),
        ("content", pa.binary()),
    ]
)
STAGED_DDL = "table string, part string, path string, amount bigint, size bigint, content binary"

COUNTS, NEWEST = "counts", "newest"
COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")


class Staged(NamedTuple):
    """What a task has left, ``amount`` rows of it: a file of a day's rows, or a file of a bucket's states.

    Or a number: how many records of a kind, or the time of the newest record. ``part`` is the day, bucket or kind.
    ``path`` is relative to the folder of the table, ``size`` is in bytes. ``content`` is the next piece of a file that
    the task could not leave in the folder; all but the last piece have no ``size``.
    """

    table: str
    part: str
    path: str
    amount: int
    size: int = 0
    content: bytes | None = None


@dataclass(frozen=True)
class BatchJob:
    """What every task of a batch is given.

    ``layout``: where to leave files; None: the tasks cannot reach it. ``states``: bucket -> the file with its groups'
    states, relative to the folder of ``_state``. ``ends`` are the sampled ends of changelogs, by group.
    """

    layout: Layout | None
    batch: int
    states: Mapping[int, str] = field(default_factory=dict)
    ends: Mapping[str, Sequence[EndOffset]] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Columns ``bucket``, ``route`` and those of ``COLUMNS``, sorted so; answers with rows of ``Staged``."""
        with self._folder() as layout:
            task = _Task(self, layout)
            for bucket, records in by_route(batches):
                task.take(bucket, records)
            staged = task.finish()
            if self.layout is not None:
                yield _as_batch(staged)
                return
            for row in staged:
                for piece in pieces(row, layout):
                    yield _as_batch([piece])

    def _folder(self) -> AbstractContextManager[Layout]:
        return _own_folder() if self.layout is None else nullcontext(self.layout)


@contextmanager
def _own_folder() -> Iterator[Layout]:
    # Spark kills a task that is cancelled; then it deletes this folder of its own, and what is in it.
    spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    with TemporaryDirectory(prefix="kstreams-assign-task-", dir=spark or None) as folder:
        yield Layout(Path(folder))


def _as_batch(staged: Sequence[Staged]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict() for row in staged], schema=STAGED)


def pieces(staged: Staged, layout: Layout) -> Iterator[Staged]:
    """A file that was staged, as rows with its content; what is no file as it is."""
    if not staged.path:
        yield staged
        return
    with (layout.table(staged.table) / staged.path).open("rb") as file:
        for _ in range(PIECE_BYTES, staged.size, PIECE_BYTES):
            yield staged._replace(amount=0, size=0, content=file.read(PIECE_BYTES))
        yield staged._replace(content=file.read())


def receive(staged: Iterable[Staged], layout: Layout) -> list[Staged]:
    """Send files that came in pieces to the store of ``layout``; what was staged, without their content."""
    whole: list[Staged] = []
    files: dict[str, list[str]] = {}
    for row in staged:
        if row.content is not None:
            path = layout.table(row.table) / row.path
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(row.content)
        if row.content is None or row.size:
            whole.append(row._replace(content=None))
        if row.size:
            files.setdefault(row.table, []).append(row.path)
    for table, paths in files.items():
        layout.store.send(layout.table(table), paths)
    return whole


def by_route(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, RawRecords]]:
    """The records of each route in turn, however Spark cut them into batches. A route is a group, near enough."""
    held: list[pa.RecordBatch] = []
    route: tuple[int, bytes | None] | None = None
    for batch in batches:
        start = 0
        for end, next_route in _runs(batch):
            if route is not None and next_route != route:
                yield route[0], _raw(held)
                held = []
            route = next_route
            held.append(batch.slice(start, end - start))
            start = end
    if route is not None:
        yield route[0], _raw(held)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, tuple[int, bytes | None]]]:
    """Where each run of one route and bucket ends, and which they are. States of several buckets may be neighbours."""
    buckets, routes = batch.column("bucket"), batch.column("route")
    if batch.num_rows:
        for end in sorted(
            {end for column in (buckets, routes) for end in pc.run_end_encode(column).run_ends.to_pylist()}
        ):
            yield end, (buckets[end - 1].as_py(), routes[end - 1].as_py())


def _raw(batches: list[pa.RecordBatch]) -> RawRecords:
    table = pa.Table.from_batches(batches)
    return RawRecords(*(table.column(name).to_pylist() for name in COLUMNS))


class _Task:
    """Rows and states of one task until they are in files."""

    def __init__(self, job: BatchJob, layout: Layout) -> None:
        self._job = job
        self._layout = layout
        self._held: list[Tables] = []
        self._rows = 0
        self._counts: Counter[str] = Counter()
        self._newest_ms = 0
        self._files: dict[tuple[str, str], _File] = {}
        self._bucket = -1
        self._states: dict[str, bytes] = {}
        self._brought: tuple[int, bytes] = -1, b""
        self._staged: list[Staged] = []

    def take(self, bucket: int, records: RawRecords) -> None:
        """Derive what these records add, all of one route; or keep the states of a bucket for the records behind."""
        if records.partition[0] == STATES_PLACE:
            self._brought = bucket, records.value[0] or b""
            return
        if bucket != self._bucket:
            self._close_bucket()
            self._bucket = bucket
            self._states = self._states_before(bucket)
        self._newest_ms = max(self._newest_ms, *records.timestamp_ms)
        for group, own in by_group(records):
            if group is None:
                self._keep(derive_strangers(own))
                continue
            state, tables = derive(self._states.get(group), own, self._job.ends.get(group, ()))
            self._keep(tables)
            if state:
                self._states[group] = state
            else:
                self._states.pop(group, None)

    def finish(self) -> list[Staged]:
        """Close all files; what is in them."""
        self._close_bucket()
        self._write()
        self._staged += [file.close() for file in self._files.values()]
        self._staged += [Staged(COUNTS, kind, "", records) for kind, records in self._counts.items()]
        self._staged.append(Staged(NEWEST, "", "", self._newest_ms))
        return self._staged

    def _keep(self, tables: Tables) -> None:
        counted = tables[COUNTS]
        for kind, records in zip(counted["kind"], counted["records"], strict=True):
            self._counts[kind] += records
        rows = sum(len(next(iter(columns.values()))) for name, columns in tables.items() if name != COUNTS)
        if rows:
            self._held.append(tables)
            self._rows += rows
            if self._rows >= ROWS_KEPT:
                self._write()

    def _write(self) -> None:
        if self._held:
            for name, columns in joined_tables(self._held).items():
                if name != COUNTS:
                    self._append(name, columns)
        self._held, self._rows = [], 0

    def _append(self, name: str, columns: Columns) -> None:
        if not columns["time_ms"]:
            return
        for day, rows in by_day(arrow_table(name, columns)):
            file = self._files.get((name, day))
            if file is None:
                file = self._files[name, day] = _File(self._layout, name, day, self._job.batch, SCHEMAS[name])
            file.append(rows)

    def _states_before(self, bucket: int) -> dict[str, bytes]:
        """Group -> state, as the batches before this one left them."""
        source: Any
        if self._brought[0] == bucket:
            source = pa.BufferReader(self._brought[1])
        elif bucket in self._job.states:
            source = self._layout.table(STATES) / self._job.states[bucket]
        else:
            return {}
        table = pq.read_table(source, partitioning=None)
        return dict(zip(table.column("group").to_pylist(), table.column("state").to_pylist(), strict=True))

    def _close_bucket(self) -> None:
        if self._bucket >= 0:
            rows = pa.table([list(self._states), list(self._states.values())], schema=STATE)
            self._staged.append(write_file(self._layout, STATES, str(self._bucket), self._job.batch, rows))


class _File:
    """A Parquet file that is being written, in the folder of its table; no reader sees it before a commit names it."""

    def __init__(self, layout: Layout, table: str, part: str, batch: int, schema: pa.Schema) -> None:
        column = "bucket" if table == STATES else "day"
        self._table, self._part = table, part
        self._path = f"{column}={part}/batch-{batch:08d}-{uuid4().hex}.parquet"
        self._whole_path = layout.table(table) / self._path
        self._whole_path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._whole_path, schema, compression="zstd")
        self._rows = 0

    def append(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._rows += rows.num_rows

    def close(self) -> Staged:
        self._writer.close()
        return Staged(self._table, self._part, self._path, self._rows, self._whole_path.stat().st_size)


def write_file(layout: Layout, table: str, part: str, batch: int, rows: pa.Table) -> Staged:
    """Write all rows of a file at once."""
    file = _File(layout, table, part, batch, rows.schema)
    file.append(rows)
    return file.close()


def by_group(records: RawRecords) -> Iterator[tuple[str | None, RawRecords]]:
    """Records by the group that their keys name, in their order; None for those about no classic group."""
    groups = {key: key_of(key).group for key in set(records.key)}
    if len(set(groups.values())) == 1:
        yield next(iter(groups.values())), records
        return
    rows = list(zip(*(getattr(records, name) for name in COLUMNS), strict=True))
    for group in dict.fromkeys(groups.values()):
        own = [row for row in rows if groups[row[3]] == group]
        yield group, RawRecords(*map(list, zip(*own, strict=True)))


def by_day(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Rows by the day (UTC) of their ``time_ms``."""
    days = pc.divide(rows.column("time_ms"), DAY_MS)
    for day in sorted(pc.unique(days).to_pylist()):
        yield day_name(day * DAY_MS), rows.filter(pc.equal(days, day))


def day_name(time_ms: int) -> str:
    """The day (UTC) of a time, as it stands in a folder's name. Times beyond Arrow's and Python's years are cut."""
    from datetime import UTC, datetime, timedelta

    first = datetime(1970, 1, 1, tzinfo=UTC)
    return (first + timedelta(days=min(max(time_ms // DAY_MS, 0), 2_932_896))).date().isoformat()


def newest_and_counts(staged: Sequence[Staged]) -> tuple[int, Tables]:
    """The time of the newest record, and the table ``counts`` of the whole batch."""
    counted: Counter[str] = Counter()
    for row in staged:
        if row.table == COUNTS:
            counted[row.part] += row.amount
    tables = empty_tables()
    tables[COUNTS] = {"kind": list(counted), "records": list(counted.values())}
    return max((row.amount for row in staged if row.table == NEWEST), default=0), tables
