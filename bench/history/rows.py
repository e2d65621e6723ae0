"""Whether the tables of a folder have the rows of the pure derivation, without either in memory; and what that costs.

The idea: a digest of each row, added up for each table and group. Two sums are equal only if each row is there as
often, whatever the order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow.parquet as pq

from kstreams_assign.history.delta import Snapshot
from kstreams_assign.history.derive import derive
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.records import Kind, RawRecords, key_of
from kstreams_assign.history.seen import Place, read_generation
from kstreams_assign.history.staging import COLUMNS as RECORD_COLUMNS
from kstreams_assign.history.staging import by_group
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.wire import decode_group_metadata, decode_offset_commit
from tests.history.play import counted, dated_rows

Item = TypeVar("Item")
Part = TypeVar("Part")
BATCH_ROWS = 10_000

TABLES = tuple(name for name in COLUMNS if name != "counts")


@dataclass
class RowSums:
    """``sums``: (table, group) -> how many rows, and the sum of their digests. ``records``: of each kind."""

    sums: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.sums.values())

    def add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            digest = int.from_bytes(blake2b(repr(dict(row)).encode(), digest_size=16).digest())
            place = table, row.get("group", "")
            count, total = self.sums.get(place, (0, 0))
            self.sums[place] = count + 1, total + digest

    def merge(self, other: RowSums) -> None:
        """Add another part."""
        for place, (rows, total) in other.sums.items():
            count, before = self.sums.get(place, (0, 0))
            self.sums[place] = count + rows, before + total
        for kind, records in other.records.items():
            self.records[kind] = self.records.get(kind, 0) + records

    def differing(self, other: RowSums) -> list[tuple[str, str]]:
        """The tables and groups that are not equal; (counts, "") if the numbers of records are not."""
        places = [place for place in sorted(self.sums | other.sums) if self.sums.get(place) != other.sums.get(place)]
        return places if self.records == other.records else [*places, ("counts", "")]


def _map(work: Callable[[Item], Part], items: Iterable[Item], workers: int) -> Iterator[Part]:
    """``map`` in processes of their own, which inherit no threads."""
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(work, items)


def sums_of_folder(layout: Layout, workers: int = 1) -> RowSums:
    """The rows that readers of the tables get. ``workers`` are processes."""
    sums = RowSums()
    for part in _map(partial(_sums_of_table, layout), TABLES, workers):
        sums.merge(part)
    counts = Snapshot(layout.table("counts"))
    sums.records = dict(counted(counts.read(["kind", "records"]).to_pylist()))
    return sums


def _sums_of_table(layout: Layout, name: str) -> RowSums:
    sums, table = RowSums(), Snapshot(layout.table(name))
    for batch in table.dataset().to_batches(columns=sorted(table.columns), batch_size=BATCH_ROWS):
        sums.add(name, batch.to_pylist())
    return sums


class Derived(NamedTuple):
    """The derivation without Spark, and the decoding of the same bytes alone, in seconds of processor time."""

    sums: RowSums
    deriving_s: float
    decoding_s: float


def derive_all(records: Path, workers: int = 1) -> Derived:
    """Derive each group of a generated fleet in one call. ``workers`` are processes; times are added up."""
    sums, deriving_s, decoding_s = RowSums(), 0.0, 0.0
    for part in _map(_derive_file, sorted(records.iterdir()), workers):
        sums.merge(part.sums)
        deriving_s, decoding_s = deriving_s + part.deriving_s, decoding_s + part.decoding_s
    return Derived(sums, deriving_s, decoding_s)


def _derive_file(records: Path) -> Derived:
    sums, deriving_s, decoding_s = RowSums(), 0.0, 0.0
    for group, own in _groups(records):
        started = time.process_time()
        _, tables = derive(None, own)
        derived = time.process_time()
        _decode(group, own)
        deriving_s, decoding_s = deriving_s + derived - started, decoding_s + time.process_time() - derived
        for name in TABLES:
            sums.add(name, dated_rows(name, tables))
        for kind, count in zip(*tables["counts"].values(), strict=True):
            sums.records[kind] = sums.records.get(kind, 0) + count
    return Derived(sums, deriving_s, decoding_s)


def _groups(records: Path) -> Iterator[tuple[str, RawRecords]]:
    table = pq.read_table(records)
    for group, own in by_group(RawRecords(*(table.column(name).to_pylist() for name in RECORD_COLUMNS))):
        assert group is not None
        yield group, own


def _decode(group: str, records: RawRecords) -> None:
    for key, value, partition, offset, time_ms in zip(
        records.key, records.value, records.partition, records.offset, records.timestamp_ms, strict=True
    ):
        assert value is not None
        if key_of(key).kind is Kind.OFFSET_COMMIT:
            decode_offset_commit(value)
        else:
            metadata = decode_group_metadata(value)
            read_generation(Place(group, metadata.generation, partition, offset, time_ms), metadata)
