"""A table of the format: batches once, columns that are added, and older versions."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.delta import DataFile, Snapshot, Table

SCHEMA = pa.schema([("task", pa.string()), ("lag", pa.int64())])
DAY = pa.field("day", pa.date32())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tasks"


def open_table(folder, schema=SCHEMA):
    return Table(folder, schema, DAY, {})


def write(folder, name, lags, day="2026-11-21"):
    """A file of the table that no commit names yet."""
    path = folder / f"day={day}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([["0_0"] * len(lags), lags], schema=SCHEMA), path)
    return DataFile(str(path.relative_to(folder)), day, len(lags), path.stat().st_size)


def lags(folder, as_of=None):
    return sorted(Snapshot(folder, as_of).read(["lag"]).column("lag").to_pylist())


def test_a_file_belongs_to_the_table_once_a_commit_names_it(folder):
    table = open_table(folder)
    file = write(folder, "a", [1, 2])
    assert lags(folder) == []
    assert table.commit(0, [file])
    assert lags(folder) == [1, 2]
    assert table.files() == [file]


def test_a_batch_that_is_there_is_not_committed_again(folder):
    table = open_table(folder)
    assert table.batch == -1
    table.commit(4, [write(folder, "a", [1])])
    for again in (table, open_table(folder)):
        assert again.batch == 4
        assert not again.commit(4, [write(folder, "b", [2])])
        assert not again.commit(3, [write(folder, "c", [3])])
    assert lags(folder) == [1]


def test_of_two_processes_that_commit_a_batch_one_does(folder):
    first, second = open_table(folder), open_table(folder)
    assert first.commit(0, [write(folder, "a", [1])])
    assert not second.commit(0, [write(folder, "b", [2])])
    assert lags(folder) == [1]
    assert second.commit(1, [write(folder, "c", [3])])
    assert lags(folder) == [1, 3]


def test_files_are_replaced_in_one_commit(folder):
    table = open_table(folder)
    table.commit(0, [write(folder, "a", [1]), write(folder, "b", [2], "2026-11-22")])
    (old,) = (file for file in table.files() if file.part == "2026-11-22")
    table.commit(1, [write(folder, "c", [3], "2026-11-22")], [old])
    assert lags(folder) == [1, 3]
    assert Snapshot(folder).version == 2


def test_a_commit_fails_that_began_before_another_run_made_itself_the_writer(folder):
    first, second = open_table(folder), open_table(folder)
    second.claim("the second run")
    with pytest.raises(Exception, match="Metadata changed"):
        first.commit(0, [write(folder, "a", [1])])
    assert first.writer == "the second run"
    assert lags(folder) == []


def test_columns_are_added_and_older_rows_have_null_there(folder):
    open_table(folder).commit(0, [write(folder, "a", [1])])
    wider = open_table(folder, SCHEMA.append(pa.field("tags", pa.map_(pa.string(), pa.string()))))
    assert Snapshot(folder).read(["lag", "tags"]).to_pylist() == [{"lag": 1, "tags": None}]
    assert wider.batch == 0
    narrower = open_table(folder)
    narrower.commit(1, [write(folder, "b", [2])])
    assert lags(folder) == [1, 2]
    assert Snapshot(folder).columns == {"task", "lag", "tags", "day"}


def test_a_column_of_another_type_is_refused_by_name(folder):
    open_table(folder)
    with pytest.raises(ConfigError, match=r'column lag of table tasks has the type .*"long".*writes .*"string"'):
        open_table(folder, pa.schema([("task", pa.string()), ("lag", pa.string())]))


def test_few_files_are_left_of_a_day_that_is_compacted(folder):
    table = open_table(folder)
    for batch in range(3):
        table.commit(batch, [write(folder, f"a{batch}", [batch]), write(folder, f"b{batch}", [9], "2026-11-22")])
    assert table.compact("2026-11-21") == 3
    assert sorted(file.part for file in table.files()) == ["2026-11-21", *["2026-11-22"] * 3]
    assert lags(folder) == [0, 1, 2, 9, 9, 9]
    assert table.batch == 2


def test_older_versions_by_number_and_by_time(folder):
    table = open_table(folder)
    for batch in range(3):
        table.commit(batch, [write(folder, f"a{batch}", [batch])])
    third = Snapshot(folder, 3)
    assert (third.version, third.batch) == (3, 2)
    assert lags(folder, 2) == [0, 1]
    assert Snapshot(folder, third.time).version == 3
    assert Snapshot(folder, 1).time <= Snapshot(folder, 2).time <= third.time
    assert Snapshot(folder, datetime.now(UTC) + timedelta(days=1)).version == 3


@pytest.mark.parametrize("as_of", [5, -1, 1 << 70])
def test_a_version_that_the_table_does_not_have_is_refused(folder, as_of):
    open_table(folder)
    with pytest.raises(LookupError, match="table tasks has no such version: the newest is 0, and"):
        Snapshot(folder, as_of)


def test_versions_whose_log_was_deleted_are_refused_by_number_and_by_time(folder):
    table = Table(
        folder, SCHEMA, DAY, {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 1 weeks"}
    )
    for batch in range(12):
        table.commit(batch, [write(folder, f"a{batch}", [batch])])
    now_s = time.time()
    for file in (folder / "_delta_log").iterdir():
        version = int(file.name[:20]) if file.name[0] == "0" else 12
        os.utime(file, (now_s - (13 - version) * 86_400,) * 2)
    table.vacuum()
    days_ago = [datetime.fromtimestamp(now_s, UTC) - timedelta(days=days) for days in range(20)]
    assert Snapshot(folder, days_ago[4]).version == Snapshot(folder, 9).version == 9
    assert lags(folder, 9) == [*range(9)]
    for as_of in (0, 1, days_ago[12], days_ago[19]):
        with pytest.raises(LookupError, match=r"table tasks (has no such version|is of 2)"):
            Snapshot(folder, as_of)


def test_no_table_is_no_snapshot(folder):
    with pytest.raises(FileNotFoundError, match="tasks"):
        Snapshot(folder)
