"""The tables for readers: one version of each, as columns of Arrow.

What must not be here: what the rows mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import compute as pc

from kstreams_assign.errors import ConfigError
from kstreams_assign.history import delta
from kstreams_assign.history.layout import Layout, layout_of
from kstreams_assign.history.phrases import many
from kstreams_assign.history.schemas import SCHEMAS
from kstreams_assign.history.store import AsOf
from kstreams_assign.history.writing import refuse_old_tables

NO_FILE = "[errno 2]"
"""Arrow's words, which DuckDB passes on, for a file that is not there."""

Columns = Mapping[str, Sequence[Any]]


class TablesReader:
    """The tables of a folder or a layout, as they are now, or as they were at a version of ``rebalances`` or at a time.

    ``rebalances`` is committed last and opened first, so each of its generations has its rows in the others.
    """

    def __init__(self, place: Path | Layout, as_of: AsOf = None) -> None:
        """Raises ``ConfigError`` for a folder without tables, and for a version or time that they do not have."""
        layout = layout_of(place)
        refuse_old_tables(layout)
        self._layout = layout
        try:
            rebalances = delta.Snapshot(layout.table("rebalances"), as_of, layout.store)
            self._snapshots = {"rebalances": rebalances}
            time = rebalances.time if isinstance(as_of, int) else as_of
            for table in SCHEMAS:
                if table not in self._snapshots:
                    with suppress(FileNotFoundError, delta.TableIsYounger):  # a later release added it
                        self._snapshots[table] = delta.Snapshot(layout.table(table), time, layout.store)
        except FileNotFoundError as error:
            raise no_tables(layout.name) from error
        except LookupError as error:
            raise ConfigError(f"--as-of {as_of}: {error}") from error
        except delta.Error as error:
            raise damaged(layout.name, error) from error

    def columns_of(self, table: str) -> frozenset[str]:
        """The columns that the table has; none if there is no such table."""
        snapshot = self._snapshots.get(table)
        return frozenset() if snapshot is None else snapshot.columns - {"day"}

    def dataset(self, table: str) -> Any:
        """The table as a dataset of Arrow, with the column ``day``; without rows if there is no such table."""
        snapshot = self._snapshots.get(table)
        if snapshot is not None:
            return snapshot.dataset()
        return SCHEMAS[table].append(pa.field("day", pa.date32())).empty_table()

    def read(self, table: str, columns: list[str], groups: Collection[str] | None, since_ms: int | None) -> Columns:
        """These columns of the rows of ``groups`` (None: all) that are not older than ``since_ms`` (None: all)."""
        if not columns:
            return {}
        condition = None
        if groups is not None:
            condition = pc.field("group").isin(list(groups))
        if since_ms is not None:
            young = pc.field("day") >= pa.scalar(datetime.fromtimestamp(since_ms / 1000, UTC).date())
            if "time_ms" in self.columns_of(table):
                young &= pc.field("time_ms") >= since_ms
            condition = young if condition is None else condition & young
        try:
            return _lists(self._snapshots[table].read(columns, condition))
        except (pa.ArrowException, OSError) as wrong:
            raise damaged(self._layout.store.place(self._layout.table(table)), wrong) from wrong


def _lists(table: pa.Table) -> Columns:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def no_tables(folder: str) -> ConfigError:
    """What to do about a folder that is no history."""
    return ConfigError(
        f"--out {folder}: the folder has no table of the history; "
        f"write them first: kstreams-assign history follow --out {folder}"
    )


def no_group(group: str, known: Collection[str]) -> ConfigError:
    """What ``--group`` may name instead."""
    near = get_close_matches(group, known, n=3) or sorted(known)[:3]
    groups = f"the tables have {many(len(known), 'group')}, such as {', '.join(map(repr, near))}"
    return ConfigError(f"--group {group!r} is in no table; {groups if near else 'they are empty'}")


def damaged(place: object, wrong: Exception) -> ConfigError:
    """A file that is missing, is no Parquet, or lacks what the schema promises."""
    said = str(wrong).partition("\n")[0]
    if isinstance(wrong, FileNotFoundError) or NO_FILE in said:
        return ConfigError(
            f"--out: {place} lacks a file ({said}): files that compaction replaced are deleted after "
            f"{delta.KEPT_HOURS // 24} days; give a younger --as-of, or copy the file back"
        )
    return ConfigError(
        f"--out: {place} cannot be read ({said}); copy the file that is named back, or name another folder"
    )
