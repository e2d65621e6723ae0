"""The rows of an answer as programs read them: JSON, CSV, Parquet."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstreams_assign.page.file import writable

if TYPE_CHECKING:
    from kstreams_assign.history.ask.answer import Answer


class Format(StrEnum):
    """How rows are written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def as_json(answer: Answer) -> str:
    """One object, with all rows. Times are text, in UTC."""
    facts = {
        "question": answer.question.name,
        "since_ms": answer.span.since_ms,
        "until_ms": answer.span.until_ms,
        "answer": answer.sentence,
        "rows": [{name: _plain(value) for name, value in row.items()} for row in answer.rows],
    }
    return f"{json.dumps(facts)}\n"


def as_csv(answer: Answer) -> str:
    """A line of names, then all rows. Null is empty; times are in UTC."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.table.column_names)
    writer.writerows([_plain(value) for value in row.values()] for row in answer.rows)
    return text.getvalue()


def write_parquet(answer: Answer, file: Path) -> None:
    """Write all rows. Raises ``ConfigError`` for a file that cannot be written."""
    from pyarrow import parquet  # type: ignore[import-untyped]

    with writable("--file", file):
        parquet.write_table(answer.table, file)


def _plain(value: Any) -> Any:
    return f"{value.isoformat(timespec='milliseconds')}Z" if isinstance(value, datetime) else value
