"""Batches as Spark would hand them over, without Spark: for everything that happens around the derivation."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kstreams_assign.history.delta import Snapshot
from kstreams_assign.history.derive import derive, derive_strangers
from kstreams_assign.history.generate import Fleet
from kstreams_assign.history.layout import BUCKETS, STATES, Layout
from kstreams_assign.history.records import RawRecords, key_of
from kstreams_assign.history.schemas import arrow_table
from kstreams_assign.history.staging import BatchJob, Staged, receive
from kstreams_assign.history.tables import COLUMNS, Tables, joined_tables
from kstreams_assign.history.times import DAY_MS
from kstreams_assign.history.writing import HistoryWriter

RECORD = pa.schema(
    {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)


class Raw(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Killed(BaseException):
    """The run ends here, as if by SIGKILL: nothing after it happens."""


def failing_once_at(to_come: list[str]) -> Callable[[str], None]:
    """A callback for boundaries that raises at each of these the first time, and takes it off the list."""

    def fail(where: str) -> None:
        if where in to_come:
            to_come.remove(where)
            raise RuntimeError(f"no more after: {where}")

    return fail


def fleet(groups: int = 5, members: int = 3, generations: int = 4) -> list[Raw]:
    """The records of a small fleet in the order of time, with a few that are about nothing or broken."""
    made = Fleet(groups=groups, members=members, generations=generations, seed=7, partitions=3)
    records = [
        Raw(partition, offset, record.time_ms, record.key, record.value)
        for partition in range(3)
        for offset, record in enumerate(made.records(partition))
    ]
    records.sort(key=lambda record: record.timestamp_ms)
    half = len(records) // 2  # a night lies between the halves
    records[half:] = [record._replace(timestamp_ms=record.timestamp_ms + DAY_MS) for record in records[half:]]
    last = records[-1].timestamp_ms
    odd = [Raw(0, 90_000, last, b"\0\7zz", b"x"), Raw(1, 90_000, last, None, b"x"), Raw(2, 90_000, last, b"\0", None)]
    key = next(record.key for record in records if record.key.startswith(b"\0\2"))
    partition = next(record.partition for record in records if record.key == key)
    odd.append(Raw(partition, 90_001, last, key, b"\0\4broken"))
    return [*records, *odd]


def cut(records: Sequence[Raw], parts: int) -> list[list[Raw]]:
    """Neighbouring records in so many batches."""
    size = -(-len(records) // parts)
    return [list(records[start : start + size]) for start in range(0, len(records), size)]


def route_of(key: bytes | None) -> bytes:
    """The twin of the expression in ``source``, in Python."""
    if key is None or len(key) < 3:
        return b""
    return key[2 : 4 + int.from_bytes(key[2:4], "big")]


def as_spark_does(
    records: Sequence[Raw], size: int = 50, states: Mapping[int, bytes] | None = None
) -> Iterator[pa.RecordBatch]:
    """Sorted by bucket, route, partition and offset, in Arrow batches of ``size``. A null route comes first.

    ``states``: bucket -> the file with its groups' states.
    """
    routed: list[Any] = [
        (zlib.crc32(route) % BUCKETS, route, *record) for record in records for route in [route_of(record.key)]
    ]
    routed += [(bucket, None, -1, -1, 0, None, content) for bucket, content in (states or {}).items()]
    routed.sort(key=lambda row: (row[0], row[1] or b"", *row[2:4]))
    schema = pa.schema([("bucket", pa.int32()), ("route", pa.binary()), *RECORD])
    for start in range(0, len(routed), size):
        columns = zip(*routed[start : start + size], strict=True)
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def stage(writer: HistoryWriter, batch: int, records: Sequence[Raw]) -> list[Staged]:
    """What one task leaves that gets the whole batch."""
    layout = writer.layout
    if not layout.is_copy:
        job = BatchJob(layout, batch, writer.states())
        return [Staged(**row) for out in job(as_spark_does(records)) for row in out.to_pylist()]
    reader = layout.store.reader(layout.table(STATES))
    states = {bucket: reader.open_input_file(path).read() for bucket, path in writer.states().items()}
    job, given = BatchJob(None, batch), as_spark_does(records, states=states)
    return receive((Staged(**row) for out in job(given) for row in out.to_pylist()), layout)


def run(
    layout: Layout,
    batches: Sequence[Sequence[Raw]],
    reached: Callable[[int, str], None] = lambda *_: None,
    checkpoint: Path | None = None,
) -> None:
    """The batches that Spark has not noted as done, each then noted; what is decided is not derived again.

    ``checkpoint``: where it notes them if not in the folder.
    """
    commits = (checkpoint or layout.checkpoint) / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    noted = max((int(path.name) for path in commits.iterdir()), default=-1)
    writer = HistoryWriter(layout, lambda where: reached(noted + 1, where))
    for batch in range(noted + 1, len(batches)):
        if batch > writer.batch:
            staged = stage(writer, batch, batches[batch])
            reached(batch, "derived")
            writer.publish(batch, staged, lambda where, batch=batch: reached(batch, where))
        (commits / str(batch)).touch()


def rows(layout: Layout) -> dict[str, list[str]]:
    """Every row of every table as a reader finds it that knows nothing of us, in one order."""
    return {name: sorted(map(repr, table_rows(layout.root / name))) for name in COLUMNS}


def table_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of one table, with their day."""
    table = Snapshot(folder)
    return table.read(sorted(table.columns)).to_pylist()


def derived(records: Iterable[Raw]) -> Tables:
    """The tables of the pure derivation: each group's records in one call, without batches, files or states."""
    groups: dict[str | None, list[Raw]] = {}
    for record in records:
        groups.setdefault(key_of(record.key).group, []).append(record)
    columns = {group: RawRecords(*zip(*own, strict=True)) for group, own in groups.items()}
    return joined_tables(
        derive_strangers(own) if group is None else derive(None, own)[1] for group, own in columns.items()
    )


def derived_rows(records: Iterable[Raw]) -> dict[str, list[str]]:
    """``derived`` in the form of ``rows``; ``counts`` is empty, since its rows depend on batches."""
    tables = derived(records)
    return {name: [] if name == "counts" else sorted(map(repr, dated_rows(name, tables))) for name in COLUMNS}


def dated_rows(name: str, tables: Tables) -> Iterator[dict[str, Any]]:
    """The rows of a derived table as ``table_rows`` returns those of a folder."""
    for row in arrow_table(name, tables[name]).to_pylist():
        day = datetime.fromtimestamp(row["time_ms"] / 1000, UTC).date()
        yield dict(sorted({**row, "day": day}.items()))


def counted(counts: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The records of each kind, over all rows of ``counts``."""
    totals: Counter[str] = Counter()
    for row in counts:
        totals[row["kind"]] += row["records"]
    return totals


def write_records(folder: Path, name: str, records: Sequence[Raw]) -> None:
    """A file as ``--records`` reads it."""
    folder.mkdir(exist_ok=True)
    columns: list[Any] = [
        pa.array(column, field.type) for column, field in zip(zip(*records, strict=True), RECORD, strict=True)
    ]
    pq.write_table(pa.table(columns, schema=RECORD), folder / name)
