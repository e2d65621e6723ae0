"""The tables as rows of the report, each of its table's kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kstreams_assign.history.report.rows import TABLES, Row, rows_of
from kstreams_assign.history.tables_reader import TablesReader


def rows(
    reader: TablesReader, kind: type[Row], groups: Collection[str] | None = None, since_ms: int | None = None
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
