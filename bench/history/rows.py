"""Whether the tables of a folder have the rows of the pure derivation, without either in memory; and what that costs.

The idea: a digest of each row, added up for each table and group. Two sums are equal only if each row is there as
often, whatever the order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

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

    def differing(self, other: RowSums) -> list[tuple[str, str]]:
        """The tables and groups that are not equal; (counts, "") if the numbers of records are not."""
        places = [place for place in sorted(self.sums | other.sums) if self.sums.get(place) != other.sums.get(place)]
        return places if self.records == other.records else [*places, ("counts", "")]


def sums_of_folder(layout: Layout) -> RowSums:
    """The rows that readers of the tables get."""
    sums = RowSums()
    for name in TABLES:
        table = Snapshot(layout.table(name))
        for batch in table.dataset().to_batches(columns=sorted(table.columns)):
            sums.add(name, batch.to_pylist())
    counts = Snapshot(layout.table("counts"))
    sums.records = dict(counted(counts.read(["kind", "records"]).to_pylist()))
    return sums


class Derived(NamedTuple):
    """The derivation in one process, and the decoding of the same bytes alone, in seconds of processor time."""

    sums: RowSums
    deriving_s: float
    decoding_s: float


def derive_all(records: Path) -> Derived:
    """Derive each group of a generated fleet in one call."""
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
    for path in sorted(records.iterdir()):
        table = pq.read_table(path)
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
