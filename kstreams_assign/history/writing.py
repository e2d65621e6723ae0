"""A batch becomes visible: folder by folder, each by one rename, in an order that readers can rely on.

What lives here: publishing what the tasks of a batch staged, and cleaning up after a run that was killed. What must
not: deriving rows, merging days. The idea: all files of a batch are in folders that have its number, so doing it again
overwrites instead of adding; its states are named last, and a repeated batch reads those of the batch before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kstreams_assign.history.layout import BUCKETS, Layout
from kstreams_assign.history.schemas import arrow_table
from kstreams_assign.history.staging import COUNTS, NEWEST, STATES, Staged, day_name, newest_and_counts
from kstreams_assign.history.tables import COLUMNS

ORDER = (*(name for name in COLUMNS if name != "rebalances"), "rebalances")
"""``rebalances`` last: a generation that stands there has its rows in every other table."""

STATES_KEPT = 2
"""Of each bucket: that of the last batch, and the one which that batch started from."""

Boundary = Callable[[str], None]
"""Called wherever a run could be killed with something half done; tests do kill it there."""


def no_boundary(where: str) -> None:
    """What a run outside of tests has."""


def publish(layout: Layout, batch: int, staged: Sequence[Staged], reached: Boundary = no_boundary) -> None:
    """Show what the tasks of a batch staged, instead of whatever an earlier attempt at it has shown."""
    files = [file for file in staged if file.table not in {COUNTS, NEWEST}]
    files += _counts(layout, batch, staged)
    for table in ORDER:
        _publish_table(layout, batch, table, [file for file in files if file.table == table])
        reached(f"published {table}")
    for file in files:
        if file.table == STATES:
            target = layout.state(int(file.part), batch)
            target.parent.mkdir(parents=True, exist_ok=True)
            (layout.staging(batch) / file.path).rename(target)
            reached("published a state")
    _prune_states(layout)
    reached("pruned states")
    shutil.rmtree(layout.staging(batch).parent)
    reached("all but noted by Spark")


def recover(layout: Layout) -> None:
    """Put right what a killed run left half done. Only its own files are touched; batches are repeated by Spark."""
    for old in (layout.work / "compact").glob("*/day=*.old"):
        day = layout.root / old.parent.name / old.name.removesuffix(".old")
        if not day.exists():
            old.rename(day)
    shutil.rmtree(layout.work, ignore_errors=True)


def _counts(layout: Layout, batch: int, staged: Sequence[Staged]) -> list[Staged]:
    newest_ms, tables = newest_and_counts(staged)
    rows = arrow_table(COUNTS, tables[COUNTS])
    if not rows.num_rows:
        return []
    pq.write_table(rows, layout.staging(batch) / "counts.parquet", compression="zstd")
    return [Staged(COUNTS, day_name(newest_ms), "counts.parquet", rows.num_rows)]


def _publish_table(layout: Layout, batch: int, table: str, files: Iterable[Staged]) -> None:
    name = f"batch={batch:08d}"
    fresh = {}
    for day, own in groupby(sorted(files, key=lambda file: file.part), key=lambda file: file.part):
        fresh[day] = folder = layout.ready(batch) / table / f"day={day}"
        folder.mkdir(parents=True)
        for number, file in enumerate(own):
            (layout.staging(batch) / file.path).rename(folder / f"part-{number:04d}.parquet")
    for stale in (layout.root / table).glob(f"day=*/{name}"):
        _take_away(stale, layout.replaced(batch) / table / stale.parent.name)
    for day, folder in fresh.items():
        target = layout.day(table, day) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)


def _take_away(folder: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(to)


def _prune_states(layout: Layout) -> None:
    for bucket in range(BUCKETS):
        for path in list(layout.state_files(bucket).values())[:-STATES_KEPT]:
            path.unlink()
