"""Batches become tables: whole, once, and the same whatever was killed on the way."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import product

import pytest

from kstreams_assign.errors import ConfigError, StateDirectoryLocked
from kstreams_assign.history import staging
from kstreams_assign.history.delta import Table
from kstreams_assign.history.layout import STATES, Layout, held
from kstreams_assign.history.staging import by_route
from kstreams_assign.history.writing import FILES, ORDER, HistoryWriter, check_folder
from tests.history.play import Killed, as_spark_does, cut, fleet, rows, run, stage, table_rows
from tests.samples import sample

RECORDS = fleet()
BATCHES = cut(RECORDS, 3)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    layout = Layout(tmp_path_factory.mktemp("undisturbed"))
    run(layout, BATCHES)
    return rows(layout)


def boundaries():
    """Every point of a batch at which a run can be killed with something half done."""
    return ["derived", "decided", *(f"published {table}" for table in ORDER)]


def test_every_record_is_counted_and_every_table_of_such_a_fleet_has_rows(undisturbed, tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    counted = table_rows(layout.root / "counts")
    damaged = sum(row["records"] for row in counted if row["kind"] == "damaged_user_data")
    assert sum(row["records"] for row in counted) - damaged == len(RECORDS)
    kinds = {row["kind"] for row in counted}
    assert kinds >= {"group_metadata", "offset_commit", "other_protocol", "damaged_key", "damaged_value"}
    assert [name for name, listed in undisturbed.items() if not listed] == ["end_offsets"]


def test_every_row_has_its_own_day_and_no_day_is_left_out(tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    by_table = {table: table_rows(layout.root / table) for table in ORDER if table != "counts"}
    all_rows = [row for of_table in by_table.values() for row in of_table]
    assert len({row["day"] for row in all_rows}) == 2
    for row in all_rows:
        assert str(row["day"]) == datetime.fromtimestamp(row["time_ms"] / 1000, UTC).date().isoformat()
    counted = table_rows(layout.root / "counts")
    completed = sum(row["records"] for row in counted if row["kind"] == "group_metadata")
    assert len(by_table["rebalances"]) == completed


def test_how_records_are_cut_into_batches_makes_no_difference_to_the_tables(undisturbed, tmp_path):
    layout = Layout(tmp_path)
    run(layout, cut(RECORDS, 7))
    listed = rows(layout)
    assert {name: listed[name] for name in ORDER if name != "counts"} == {
        name: undisturbed[name] for name in ORDER if name != "counts"
    }


@pytest.mark.parametrize(("batch", "where"), sample(list(product(range(3), boundaries())), 4))
def test_a_run_killed_at_a_boundary_ends_with_the_same_tables(where, batch, undisturbed, tmp_path):
    layout = Layout(tmp_path)

    def kill(now, at):
        if (now, at) == (batch, where):
            raise Killed

    with pytest.raises(Killed):
        run(layout, BATCHES, kill)
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_killed_once_at_each_boundary_in_turn_it_ends_with_the_same_tables(undisturbed, tmp_path):
    """Attempt after attempt at the same batches, each a step further."""
    layout = Layout(tmp_path)
    to_come = [(batch, where) for batch in range(3) for where in boundaries()]

    def kill(batch, where):
        if (batch, where) in to_come:
            to_come.remove((batch, where))
            raise Killed

    while to_come:
        with pytest.raises(Killed):
            run(layout, BATCHES, kill)
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_a_decided_batch_is_completed_as_it_was_and_not_derived_again(tmp_path, undisturbed):
    """Records may be compacted away before it is repeated: its rows would come from two attempts."""
    layout = Layout(tmp_path)

    def kill(batch, where):
        if (batch, where) == (2, "published members"):
            raise Killed

    with pytest.raises(Killed):
        run(layout, BATCHES, kill)
    assert rows(layout) != undisturbed
    run(layout, [*BATCHES[:2], BATCHES[2][:3]])
    assert rows(layout) == undisturbed


def test_a_batch_that_was_not_decided_is_derived_again_and_its_files_are_in_no_table(tmp_path, undisturbed):
    layout = Layout(tmp_path)

    def kill(batch, where):
        if (batch, where) == (1, "derived"):
            raise Killed

    with pytest.raises(Killed):
        run(layout, BATCHES, kill)
    before = set((layout.root / "members").rglob("batch-*.parquet"))
    run(layout, BATCHES)
    committed = {layout.root / "members" / file.path for file in HistoryWriter(layout).tables["members"].files()}
    assert before - committed
    assert rows(layout) == undisturbed


def test_a_generation_that_is_seen_has_its_members_and_tasks_already(tmp_path):
    layout = Layout(tmp_path)
    seen = []

    def look(batch, where):
        listed = rows(layout)
        if batch == 0 and not listed["rebalances"]:
            seen.append(where)
        elif batch == 0:
            assert all(listed[table] for table in ("members", "task_placements", "balance"))

    run(layout, BATCHES[:1], look)
    assert seen[-1] == f"published {ORDER[-2]}"


def test_what_a_task_staged_that_was_run_again_is_in_no_table(undisturbed, tmp_path):
    layout = Layout(tmp_path)
    stage(HistoryWriter(layout), 0, BATCHES[0])  # its list of files was lost with its executor
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


@pytest.mark.parametrize("table", ["members", STATES])
def test_a_batch_whose_files_are_on_an_executors_own_disk_is_refused(table, tmp_path, undisturbed):
    layout = Layout(tmp_path)
    writer = HistoryWriter(layout)
    staged = stage(writer, 0, BATCHES[0])
    file = next(layout.table(row.table) / row.path for row in staged if row.table == table and row.path)
    file.rename(tmp_path / "own-disk")
    with pytest.raises(ConfigError, match=rf"an executor wrote {table}/.*; name a folder that .* all executors share"):
        writer.publish(0, staged)
    assert writer.batch == HistoryWriter(layout).batch == -1
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_one_file_of_states_a_bucket_is_kept(tmp_path):
    layout = Layout(tmp_path)
    run(layout, cut(RECORDS, 6))
    files = [path.parent.name for path in layout.table(STATES).rglob("batch-*.parquet")]
    assert len(files) == len(set(files)) > 5
    assert {f"bucket={bucket}" for bucket in HistoryWriter(layout).states()} == {*files} - {f"bucket={FILES}"}


def test_a_task_leaves_its_files_in_a_folder_that_spark_deletes(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    with staging._own_folder() as layout:
        assert layout.root.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_arrow_batches_may_end_in_the_midst_of_a_group():
    whole = [(bucket, list(records.offset)) for bucket, records in by_route(as_spark_does(RECORDS, 10_000))]
    assert [(bucket, list(records.offset)) for bucket, records in by_route(as_spark_does(RECORDS, 3))] == whole
    assert len(whole) > 5


def test_tables_without_a_checkpoint_are_refused_before_they_double(tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES[:1])
    layout.checkpoint.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"_checkpoint was deleted.*new folder"):
        check_folder(layout)


def test_a_run_that_ended_before_its_first_batch_may_be_started_again(tmp_path):
    HistoryWriter(Layout(tmp_path))
    check_folder(Layout(tmp_path))


@pytest.mark.parametrize("name", ["counts", "_state"])
def test_folders_of_an_earlier_release_are_refused(tmp_path, name):
    (tmp_path / name / ("bucket=00" if name == "_state" else "day=2026-11-21")).mkdir(parents=True)
    with pytest.raises(ConfigError, match=rf"table {name} is a folder of Parquet files .* into a new folder"):
        check_folder(Layout(tmp_path))


def test_a_second_run_is_refused_and_the_first_is_named(tmp_path):
    with (
        held(Layout(tmp_path)),
        pytest.raises(StateDirectoryLocked, match=rf"another run works on it, process {os.getpid()} on host \S+; wait"),
        held(Layout(tmp_path)),
    ):
        pass


def test_where_no_lock_holds_the_run_that_started_last_is_named_and_the_other_ends(tmp_path, undisturbed):
    """On a file system without locks, from two machines. A transaction id alone would skip its batches in silence."""
    layout = Layout(tmp_path)
    run(layout, BATCHES[:1])
    first = HistoryWriter(layout)
    staged = stage(first, 1, BATCHES[1])
    second = HistoryWriter(layout)
    for refused in (first.refuse_other_writer, lambda: first.publish(1, staged)):
        with pytest.raises(StateDirectoryLocked, match=rf"another run writes to it now, process {os.getpid()} on host"):
            refused()
    second.publish(1, stage(second, 1, BATCHES[1]))
    with pytest.raises(StateDirectoryLocked):
        first.publish(2, staged)
    (layout.checkpoint / "commits" / "1").touch()
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_a_run_that_starts_between_the_check_and_the_commit_is_not_overtaken(tmp_path, undisturbed, monkeypatch):
    layout = Layout(tmp_path)
    run(layout, BATCHES[:1])
    first = HistoryWriter(layout)
    staged = stage(first, 1, BATCHES[1])
    commit = Table.commit

    def start_another_run_first(table, *arguments):
        monkeypatch.setattr(Table, "commit", commit)
        HistoryWriter(layout)
        return commit(table, *arguments)

    monkeypatch.setattr(Table, "commit", start_another_run_first)
    with pytest.raises(StateDirectoryLocked, match="another run writes to it now"):
        first.publish(1, staged)
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_tables_of_another_topic_are_refused_and_stay_those_of_the_first(tmp_path, undisturbed):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    for topic_id in ("first", "first", ""):
        HistoryWriter(layout, topic_id=topic_id)  # "": from a folder of records, or to compact
    with pytest.raises(ConfigError, match=r"another topic __consumer_offsets, with the id first; .* has second"):
        HistoryWriter(layout, topic_id="second")
    HistoryWriter(layout, topic_id="first")
    assert rows(layout) == undisturbed


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--out .*cannot be written to"), held(Layout(tmp_path / "file" / "out")):
        pass
