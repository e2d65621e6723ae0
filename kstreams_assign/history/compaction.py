"""Many batch folders of a day become one, while readers read.

What lives here: merging a day, and exchanging its folder. What must not: batches that Spark may repeat; a day that
holds such a batch is left alone. The idea: the new folder of a day is complete before readers see it, and replaces the
old folder in one step. So no journal is needed: whatever is in the table is whole, anything beside it can be deleted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset as ds  # type: ignore[import-untyped]

from kstreams_assign.history.layout import Layout
from kstreams_assign.history.schemas import SCHEMAS
from kstreams_assign.history.writing import Boundary, no_boundary

MANY = 100
"""So many folders are merged on the present day, too."""

ROWS_A_GROUP = 131_072

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}

Exchange = Callable[[Path, Path], bool]
"""Lets two folders take each other's place in one step; False where that cannot be done."""


class Merged(NamedTuple):
    """A day that was compacted: so many folders became one."""

    table: str
    day: str
    folders: int
    rows: int


def exchange_in_one_step(first: Path, other: Path) -> bool:
    """``renameat2(RENAME_EXCHANGE)``: no reader ever sees a name missing. Linux, on most of its file systems."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first))


def compact(
    layout: Layout,
    today: str,
    reached: Boundary = no_boundary,
    exchange: Exchange = exchange_in_one_step,
    many: int = MANY,
) -> list[Merged]:
    """Merge each past day that has several folders, and ``today`` (UTC) if it has ``many``. The caller holds the lock.

    ``reached`` is called at each point where a killed run would leave something behind for ``writing.recover``.
    """
    done = layout.committed()
    merged = []
    for table in SCHEMAS:
        for day in layout.days(table):
            folders = layout.batches(table, day)
            enough = len(folders) >= (2 if day < today else many)
            if enough and max(folders) <= done:
                merged.append(_compact_day(layout, table, day, reached, exchange))
    return merged


def _compact_day(layout: Layout, table: str, day: str, reached: Boundary, exchange: Exchange) -> Merged:
    folders = layout.batches(table, day)
    new, current = layout.compacting(table, day), layout.day(table, day)
    shutil.rmtree(new, ignore_errors=True)
    rows = _merge(table, folders, new)
    reached(f"merged {table}")
    if not exchange(new, current):
        _exchange_by_renames(new, current, reached)
    reached(f"exchanged {table}")
    shutil.rmtree(new)  # by now the old one
    return Merged(table, day, len(folders), rows)


def _merge(table: str, folders: dict[int, Path], new: Path) -> int:
    """Write the rows of all folders, in their order, into one; it has the greatest of their numbers."""
    files = [str(path) for folder in folders.values() for path in sorted(folder.glob("*.parquet"))]
    rows = ds.dataset(files, schema=SCHEMAS[table], format="parquet")
    target = new / f"batch={max(folders):08d}"
    ds.write_dataset(
        rows.scanner(use_threads=False),
        target,
        format="parquet",
        file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
        basename_template="part-{i}.parquet",
        use_threads=False,
        min_rows_per_group=ROWS_A_GROUP // 2,
        max_rows_per_group=ROWS_A_GROUP,
    )
    for path in (*target.iterdir(), target, new):
        _sync(path)  # the only copy, soon
    return int(rows.count_rows())


def _exchange_by_renames(new: Path, current: Path, reached: Boundary) -> None:
    """Two renames, between which the day is absent; ``writing.recover`` knows the name of the old folder."""
    old = new.with_name(f"{new.name}.old")
    current.rename(old)
    reached(f"renamed away {current.parent.name}")
    new.rename(current)
    old.rename(new)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
