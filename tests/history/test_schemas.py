"""The types of the tables are those that ``protocol/history.md`` defines."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_assign.history.schemas import SCHEMAS, TYPES, arrow_table
from kstreams_assign.history.tables import COLUMNS, empty_tables

DOCUMENT = (Path(__file__).parents[2] / "protocol" / "history.md").read_text(encoding="utf-8")


def documented_columns(table: str) -> list[tuple[str, pa.DataType]]:
    """The columns of one table in their order, as the document has them: several in a row may share a type."""
    section = DOCUMENT.split(f"## `{table}`")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| (\S+) \|", section, re.MULTILINE)
    return [(name, TYPES[kind]) for names, kind in rows for name in re.findall(r"`(\w+)`", names)]


def test_the_document_tells_of_every_table():
    assert re.findall(r"^## `(\w+)`", DOCUMENT, re.MULTILINE) == list(COLUMNS)


@pytest.mark.parametrize("table", COLUMNS)
def test_a_table_has_the_columns_and_types_of_the_document(table):
    documented = documented_columns(table)
    assert len(documented) == len(COLUMNS[table])
    assert dict(documented) == {field.name: field.type for field in SCHEMAS[table]}


@pytest.mark.parametrize("table", COLUMNS)
def test_a_table_without_rows_has_its_types_all_the_same(table):
    assert arrow_table(table, empty_tables()[table]).schema == SCHEMAS[table]
