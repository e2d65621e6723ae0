"""Many folders of a day become one, and readers always see every row once."""

from __future__ import annotations

import threading

import pytest

from kstreams_assign.history.compaction import compact, exchange_in_one_step
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.writing import recover
from tests.history.play import Killed, cut, fleet, rows, run

BATCHES = cut(fleet(), 6)
FUTURE, PAST = "2999-01-01", "1970-01-02"


def by_renames(*_):
    """A file system that cannot exchange folders."""
    return False


@pytest.fixture
def layout(tmp_path):
    rows_read = Layout(tmp_path)
    run(rows_read, BATCHES)
    return rows_read


def folders(layout, table):
    return [len(layout.batches(table, day)) for day in layout.days(table)]


@pytest.mark.parametrize("exchange", [exchange_in_one_step, by_renames])
def test_each_day_has_one_folder_and_all_rows(layout, exchange):
    before = rows(layout)
    greatest = {max(layout.batches("counts", day)) for day in layout.days("counts")}
    merged = compact(layout, FUTURE, exchange=exchange)
    assert rows(layout) == before
    assert {count for table in before for count in folders(layout, table)} == {1}
    assert {merged_day for day in layout.days("counts") for merged_day in layout.batches("counts", day)} <= greatest
    assert sum(merged_day.rows for merged_day in merged if merged_day.table == "rebalances") <= len(
        before["rebalances"]
    )
    assert compact(layout, FUTURE, exchange=exchange) == []


def test_the_present_day_is_left_alone_until_it_has_many_folders(layout):
    before = folders(layout, "counts")
    assert compact(layout, PAST) == []
    compact(layout, PAST, many=2)
    assert max(before) > 1
    assert max(folders(layout, "counts")) == 1


def test_a_day_with_a_batch_that_may_be_repeated_is_left_alone(layout):
    last = layout.committed()
    (layout.checkpoint / "commits" / str(last)).unlink()
    open_days = {(t, d) for t in ("counts", "members") for d in layout.days(t) if last in layout.batches(t, d)}
    merged = {(merged_day.table, merged_day.day) for merged_day in compact(layout, FUTURE)}
    assert open_days
    assert merged
    assert not merged & open_days


def test_batches_that_come_after_a_compaction_add_to_it(tmp_path):
    layout, straight = Layout(tmp_path / "compacted"), Layout(tmp_path / "straight")
    for done in range(1, len(BATCHES) + 1):
        run(layout, BATCHES[:done])
        compact(layout, FUTURE)
    run(straight, BATCHES)
    assert rows(layout) == rows(straight)


def kill_points(tmp_path_factory, exchange):
    layout = Layout(tmp_path_factory.mktemp("points"))
    run(layout, BATCHES)
    points = []
    compact(layout, FUTURE, points.append, exchange)
    return points


@pytest.mark.parametrize("exchange", [exchange_in_one_step, by_renames])
def test_killed_at_any_point_no_row_is_lost_or_doubled(tmp_path, tmp_path_factory, exchange):
    """One after the other on the same folder: each run gets one step further than the one before."""
    points = kill_points(tmp_path_factory, exchange)
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    before = rows(layout)
    killed = set()

    def kill(where):
        if where not in killed:
            killed.add(where)
            raise Killed

    while killed != set(points):
        with pytest.raises(Killed):
            compact(layout, FUTURE, kill, exchange)
        if exchange is exchange_in_one_step:
            assert rows(layout) == before, "also before any cleanup"
        recover(layout)
        assert rows(layout) == before
    compact(layout, FUTURE, exchange=exchange)
    assert rows(layout) == before
    assert {count for table in before for count in folders(layout, table)} == {1}


def test_a_reader_in_the_midst_of_compactions_sees_every_row_once_or_reads_again(tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    whole = rows(layout)["task_placements"]
    over = threading.Event()
    seen = []

    def read():
        while not over.is_set():
            try:
                seen.append(rows(layout)["task_placements"] == whole)
            except FileNotFoundError:
                continue  # listed before an exchange, opened after it

    reader = threading.Thread(target=read)
    reader.start()
    compact(layout, FUTURE, lambda _: over.is_set())
    over.set()
    reader.join(60)
    assert rows(layout)["task_placements"] == whole
    assert all(seen)
