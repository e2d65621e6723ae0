"""Many files of a day become few, and readers always see every row once."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from kstreams_assign.history.compaction import compact
from kstreams_assign.history.delta import KEPT_HOURS
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.writing import HistoryWriter
from tests.history.play import Killed, cut, fleet, rows, run

BATCHES = cut(fleet(), 6)
FUTURE, PAST = "2999-01-01", "1970-01-02"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """All batches, never compacted."""
    layout = Layout(tmp_path_factory.mktemp("written"))
    run(layout, BATCHES)
    return layout


@pytest.fixture
def layout(written, tmp_path):
    """A copy for one test."""
    shutil.copytree(written.root, tmp_path, dirs_exist_ok=True)
    return Layout(tmp_path)


def files_a_day(layout, table):
    return Counter(file.part for file in HistoryWriter(layout).tables[table].files())


def test_each_day_has_one_file_and_all_rows(layout):
    before = rows(layout)
    files = files_a_day(layout, "rebalances")
    merged = compact(HistoryWriter(layout), FUTURE)
    assert rows(layout) == before
    assert {count for table in before for count in files_a_day(layout, table).values()} == {1}
    assert [(m.day, m.files, m.files_left) for m in merged if m.table == "rebalances"] == [
        (day, count, 1) for day, count in sorted(files.items()) if count > 1
    ]
    assert compact(HistoryWriter(layout), FUTURE) == []


def test_the_present_day_is_left_alone_until_it_has_many_files(layout):
    before = files_a_day(layout, "counts")
    writer = HistoryWriter(layout)
    assert compact(writer, PAST) == []
    compact(writer, PAST, many=2)
    assert max(before.values()) > 1
    assert max(files_a_day(layout, "counts").values()) == 1


def test_batches_that_come_after_a_compaction_add_to_it(tmp_path, written):
    layout = Layout(tmp_path)
    for done in range(1, len(BATCHES) + 1):
        run(layout, BATCHES[:done])
        compact(HistoryWriter(layout), FUTURE)
    assert rows(layout) == rows(written)


def test_a_batch_is_repeated_after_a_compaction_and_changes_nothing(layout):
    before = rows(layout)
    compact(HistoryWriter(layout), FUTURE)
    (layout.checkpoint / "commits" / str(len(BATCHES) - 1)).unlink()
    run(layout, BATCHES)
    assert rows(layout) == before


def test_killed_at_any_point_no_row_is_lost_or_doubled(layout):
    """One after the other on the same folder: each run gets one step further than the one before."""
    before = rows(layout)
    killed = 0

    def kill(_where):
        raise Killed

    while True:
        try:
            compact(HistoryWriter(layout), FUTURE, kill)
            break
        except Killed:
            killed += 1
            assert rows(layout) == before
    assert killed > len(before) - 3
    assert {count for table in before for count in files_a_day(layout, table).values()} == {1}


def test_replaced_files_and_those_of_failed_attempts_are_deleted_after_a_week(layout, monkeypatch):
    before = rows(layout)
    stray = layout.table("members") / "day=2026-11-21" / "batch-00000009-x.parquet"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"half")
    young = set(layout.root.rglob("batch-*.parquet"))
    compact(HistoryWriter(layout), FUTURE)
    assert set(layout.root.rglob("batch-*.parquet")) == young, "files that were replaced are kept for readers"
    monkeypatch.setattr("kstreams_assign.history.delta.KEPT_HOURS", 0)
    compact(HistoryWriter(layout), FUTURE)
    left = {path for path in layout.root.rglob("*.parquet") if "_delta_log" not in path.parts}
    assert not stray.exists()
    assert left & young < young
    assert rows(layout) == before


def test_only_files_older_than_a_week_are_deleted(layout):
    folder = layout.table("members") / "day=2026-11-21"
    folder.mkdir(exist_ok=True)
    now_s = time.time()
    for name, hours in (("young", KEPT_HOURS - 1), ("old", KEPT_HOURS + 1)):
        (folder / f"{name}.parquet").touch()
        os.utime(folder / f"{name}.parquet", (now_s - hours * 3600,) * 2)
    compact(HistoryWriter(layout), datetime.now(UTC).date().isoformat())
    assert (folder / "young.parquet").exists()
    assert not (folder / "old.parquet").exists()


def test_a_reader_in_the_midst_of_compactions_sees_every_row_once(layout):
    whole = rows(layout)["task_placements"]
    over = threading.Event()
    seen = []

    def read():
        while not over.is_set():
            seen.append(rows(layout)["task_placements"] == whole)

    reader = threading.Thread(target=read)
    reader.start()
    compact(HistoryWriter(layout), FUTURE)
    over.set()
    reader.join(60)
    assert rows(layout)["task_placements"] == whole
    assert all(seen)
