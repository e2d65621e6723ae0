"""From a folder of tables to the rows of a question: DuckDB runs its SQL over one version of each table.

What lives here: which rows a question sees, and DuckDB. What must not: what the rows mean (``questions``), and how they
are shown (``show``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.ask.questions import Question
from kstreams_assign.history.layout import Layout, layout_of
from kstreams_assign.history.store import AsOf
from kstreams_assign.history.tables_reader import TablesReader, damaged, no_group
from kstreams_assign.history.times import DAY_MS

TABLES = ("rebalances", "movements", "members", "end_offsets")
"""What questions may ask."""

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB fetches nothing from the network."""

DUCKDBS_SCHEMES = {"s3a": "s3", "gs": "gs", "abfss": "abfss"}
"""What Hadoop calls a file system -> what DuckDB calls it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time that is asked about, in milliseconds since 1970 UTC: after ``since_ms``, and not after ``until_ms``."""

    since_ms: int
    until_ms: int

    def __str__(self) -> str:
        return " to ".join(f"{_utc(ms):%Y-%m-%d %H:%M:%S} UTC" for ms in (self.since_ms, self.until_ms))

    @property
    def condition(self) -> str:
        """Which rows are of this time, for DuckDB and for Spark."""
        return f"time_ms > {self.since_ms} and time_ms <= {self.until_ms}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants: the last ``days`` before ``until_ms``, or before the newest generation.

    ``tables``: their folder or layout. ``group``: of this group alone.
    """

    tables: Path | Layout
    question: Question
    days: int | None = None
    until_ms: int | None = None
    group: str | None = None
    as_of: AsOf = None


@dataclass(frozen=True)
class Answer:
    """The rows, their columns in ``table.column_names``."""

    question: Question
    span: Span
    table: Any

    @cached_property
    def rows(self) -> Sequence[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.table.to_pylist()
        return listed

    @property
    def sentence(self) -> str:
        return self.question.sentence(self.rows)


def answer(asked: Asked) -> Answer:
    """Ask. Raises ``ConfigError`` for a folder without tables, files that cannot be read, and an unknown group."""
    (answered,) = answer_each(asked, [asked.question], TablesReader(asked.tables, asked.as_of))
    return answered


def answer_each(asked: Asked, questions: Sequence[Question], reader: TablesReader) -> list[Answer]:
    """Ask several questions about the time and the group of ``asked``. Raises as ``answer`` does."""
    try:
        return answer_from({table: reader.dataset(table) for table in TABLES}, asked, questions)
    except (duckdb.Error, pa.ArrowException, OSError) as wrong:
        layout = layout_of(asked.tables)
        raise layout.store.failed or damaged(layout.name, wrong) from wrong


def answer_from(tables: Mapping[str, Any], asked: Asked, questions: Sequence[Question]) -> list[Answer]:
    """Ask these tables, which Arrow holds or reads. Raises ``ConfigError`` for an unknown group."""
    with duckdb.connect(config={"temp_directory": gettempdir(), **OFFLINE}) as connection:
        for table in TABLES:
            connection.register(f"all_{table}", tables[table])
        span = _span(asked, connection)
        connection.execute(views(span, asked.group, {table: f"all_{table}" for table in TABLES}))
        return [Answer(each, span, connection.execute(each.query).to_arrow_table()) for each in questions]


def script(asked: Asked) -> str:
    """The same as one script for DuckDB alone, with its reader of Delta Lake. It reads the newest versions."""
    layout = layout_of(asked.tables)
    places = {table: f"delta_scan({_literal(_for_duckdb(layout, table))})" for table in TABLES}
    reader = TablesReader(layout)
    with duckdb.connect(config=OFFLINE) as connection:
        connection.register("all_rebalances", reader.dataset("rebalances"))
        span = _span(asked, connection)
    return f"install delta;\nload delta;\n{views(span, asked.group, places)}\n{asked.question.query.rstrip()};\n"


def _for_duckdb(layout: Layout, table: str) -> str:
    """The name of a table for DuckDB. Raises ``ConfigError`` for a file system that it does not read."""
    scheme, colon, rest = layout.name.partition(":")
    if not layout.is_copy:
        return f"{layout.name}/{table}"
    if scheme not in DUCKDBS_SCHEMES:
        raise ConfigError(
            f"--sql: DuckDB does not read {scheme}: addresses; leave out --sql, or copy the tables into a folder"
        )
    return f"{DUCKDBS_SCHEMES[scheme]}{colon}{rest}/{table}"


def views(span: Span, group: str | None, places: Mapping[str, str]) -> str:
    """The tables of a question as views: what of each place it sees. ``day`` lets a reader leave out old files."""
    conditions = [
        f"day between date '{_utc(span.since_ms).date()}' and date '{_utc(span.until_ms).date()}'",
        span.condition,
        *([] if group is None else [f'"group" = {_literal(group)}']),
    ]
    rows = " and ".join(conditions)
    return "\n".join(f"create temp view {table} as from {place} where {rows};" for table, place in places.items())


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _span(asked: Asked, connection: duckdb.DuckDBPyConnection) -> Span:
    until_ms = asked.until_ms
    if asked.group is not None or until_ms is None:
        found = connection.execute(
            'select "group", max(time_ms) from all_rebalances group by "group" order by "group"'
        ).fetchall()
        newest = dict(found)
        if asked.group is not None and asked.group not in newest:
            raise no_group(asked.group, newest)
        if until_ms is None:
            until_ms = max(newest.values(), default=0)
    return Span(max(0, until_ms - (asked.days or asked.question.days) * DAY_MS), until_ms)
