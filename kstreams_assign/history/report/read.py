"""The tables' files as columns: through pyarrow, or through a Spark session for places that only Spark can read.

The one place of the report that knows Parquet. What must not be here: what the rows mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]
from pyarrow import compute as pc

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.report.rows import TABLES, Columns, Row, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = ds.partitioning(pa.schema([("day", pa.string()), ("batch", pa.string())]), flavor="hive")

NO_TABLES = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""What Spark calls a folder that is not there, or that holds no file yet."""


class Reader(Protocol):
    """Where tables are read from. Both methods answer nothing for a table without files."""

    def columns_of(self, table: str) -> frozenset[str]:
        """The columns that the table has; none if it has no files."""

    def read(self, table: str, columns: list[str], groups: Collection[str] | None, since_ms: int | None) -> Columns:
        """These columns of the rows of ``groups`` (None: all) that are not older than ``since_ms`` (None: all)."""


class ParquetFolder:
    """Tables below a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        if not any((folder / table).is_dir() for table in TABLES.values()):
            raise no_tables(str(folder.absolute()))
        self._folder = folder
        self._datasets: dict[str, Any] = {}

    def _dataset(self, table: str) -> Any:
        if table not in self._datasets:
            folder = self._folder / table
            if not folder.is_dir():
                self._datasets[table] = None
            else:
                try:
                    self._datasets[table] = ds.dataset(folder, format="parquet", partitioning=PARTITIONS)
                except (pa.ArrowException, OSError) as wrong:
                    raise damaged(folder, wrong) from wrong
        return self._datasets[table]

    def columns_of(self, table: str) -> frozenset[str]:
        dataset = self._dataset(table)
        return frozenset() if dataset is None else frozenset(dataset.schema.names) - {"day", "batch"}

    def read(self, table: str, columns: list[str], groups: Collection[str] | None, since_ms: int | None) -> Columns:
        dataset = self._dataset(table)
        if dataset is None or not columns:
            return {}
        condition = None
        if groups is not None:
            condition = pc.field("group").isin(list(groups))
        if since_ms is not None:
            day = datetime.fromtimestamp(since_ms / 1000, UTC).date().isoformat()
            young = pc.field("day") >= day
            if "time_ms" in dataset.schema.names:
                young &= pc.field("time_ms") >= since_ms
            condition = young if condition is None else condition & young
        try:
            return _lists(self._table(table, columns, condition))
        except (pa.ArrowException, OSError) as wrong:
            raise damaged(self._folder / table, wrong) from wrong

    def _table(self, table: str, columns: list[str], condition: Any) -> pa.Table:
        """The rows; read once more if compaction put other files in the place of those that were listed."""
        try:
            return self._dataset(table).to_table(columns=columns, filter=condition)
        except FileNotFoundError:
            del self._datasets[table]
            return self._dataset(table).to_table(columns=columns, filter=condition)


class SparkFolder:
    """Tables at any place that a Spark session can read."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session, self._folder = session, folder
        self._frames: dict[str, Any] = {}
        if not any(self.columns_of(table) for table in ("rebalances", "counts")):
            raise no_tables(folder)

    def _frame(self, table: str) -> Any:
        if table not in self._frames:
            self._frames[table] = self._opened(f"{self._folder}/{table}")
        return self._frames[table]

    def _opened(self, place: str) -> Any:
        from pyspark.errors import AnalysisException

        try:
            return self._session.read.parquet(place)
        except AnalysisException as wrong:
            if (wrong.getCondition() or "").startswith(NO_TABLES):
                return None
            raise damaged(place, wrong) from wrong

    def columns_of(self, table: str) -> frozenset[str]:
        frame = self._frame(table)
        return frozenset() if frame is None else frozenset(frame.columns) - {"day", "batch"}

    def read(self, table: str, columns: list[str], groups: Collection[str] | None, since_ms: int | None) -> Columns:
        frame = self._frame(table)
        if frame is None or not columns:
            return {}
        if groups is not None:
            frame = frame.where(frame["group"].isin(list(groups)))
        if since_ms is not None:
            day = datetime.fromtimestamp(since_ms / 1000, UTC).date().isoformat()
            frame = frame.where(frame["day"] >= day)
            if "time_ms" in frame.columns:
                frame = frame.where(frame["time_ms"] >= since_ms)
        return _lists(frame.select(*columns).toArrow())


def _lists(table: pa.Table) -> Columns:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def rows(
    reader: Reader, kind: type[Row], groups: Collection[str] | None = None, since_ms: int | None = None
) -> Iterator[Row]:
    """The table of ``kind``, as rows."""
    table = TABLES[kind]
    there = reader.columns_of(table)
    wanted = [column for column in kind._fields if column in there]
    return rows_of(kind, reader.read(table, wanted, groups, since_ms))


def split(listed: Iterable[Any]) -> dict[str, list[Any]]:
    """Rows by their group."""
    by_group: dict[str, list[Any]] = {}
    for row in listed:
        by_group.setdefault(row.group, []).append(row)
    return by_group


def no_tables(folder: str) -> ConfigError:
    """What to do about a folder that is no history."""
    return ConfigError(
        f"--out {folder}: the folder has no table of the history; "
        f"write them first: kstreams-assign history follow --out {folder}"
    )


def damaged(place: object, wrong: Exception) -> ConfigError:
    """A file that is no Parquet, or lacks what the schema promises."""
    return ConfigError(
        f"--out: {place} cannot be read as Parquet ({wrong}); remove the file that is named, or name another folder"
    )
