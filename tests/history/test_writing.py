"""Batches become tables: whole, once, and the same whatever was killed on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pandas as pd
import pytest

from kstreams_assign.errors import ConfigError, StateDirectoryLocked
from kstreams_assign.history.layout import BUCKETS, Layout, held
from kstreams_assign.history.staging import by_route
from kstreams_assign.history.writing import ORDER, STATES_KEPT, recover
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
    return [
        "derived",
        *(f"published {table}" for table in ORDER),
        "published a state",
        "pruned states",
        "all but noted by Spark",
    ]


def test_every_record_is_counted_and_every_table_of_such_a_fleet_has_rows(undisturbed, tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    counted = table_rows(layout.root / "counts")
    damaged = sum(row["records"] for row in counted if row["kind"] == "damaged_user_data")
    assert sum(row["records"] for row in counted) - damaged == len(RECORDS)
    kinds = {row["kind"] for row in counted}
    assert kinds >= {"group_metadata", "offset_commit", "other_protocol", "damaged_key", "damaged_value"}
    assert [name for name, listed in undisturbed.items() if not listed] == ["end_offsets"]


def test_every_row_stands_in_the_folder_of_its_own_day_and_no_day_is_left_out(tmp_path):
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


@pytest.mark.parametrize(("batch", "where"), sample(list(product(range(3), boundaries())), 9))
def test_a_run_killed_at_a_boundary_ends_with_the_same_tables(where, batch, undisturbed, tmp_path):
    layout = Layout(tmp_path)

    def kill(now, at):
        if (now, at) == (batch, where):
            raise Killed

    with pytest.raises(Killed):
        run(layout, BATCHES, kill)
    recover(layout)
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
        recover(layout)
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_rows_of_an_earlier_attempt_go_also_from_days_that_the_new_one_does_not_have(tmp_path):
    layout = Layout(tmp_path)
    run(layout, [BATCHES[0]])
    days = set(layout.days("rebalances"))
    later = [records._replace(timestamp_ms=records.timestamp_ms + 10 * 86_400_000) for records in BATCHES[0]]
    (layout.checkpoint / "commits" / "0").unlink()
    run(layout, [later])
    assert {day for day in days | set(layout.days("rebalances")) if layout.batches("rebalances", day)}.isdisjoint(days)


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
    stage(layout, 0, BATCHES[0])  # its list of files was lost with its executor
    run(layout, BATCHES)
    assert rows(layout) == undisturbed


def test_two_states_of_each_bucket_are_kept_and_nothing_that_was_only_work(tmp_path):
    layout = Layout(tmp_path)
    run(layout, cut(RECORDS, 6))
    kept = [len(layout.state_files(bucket)) for bucket in range(BUCKETS)]
    assert max(kept) == STATES_KEPT
    assert list(layout.work.iterdir()) == []


def test_pandas_sees_what_pyarrow_sees(tmp_path, undisturbed):
    layout = Layout(tmp_path)
    run(layout, BATCHES)
    frame = pd.read_parquet(layout.root / "task_placements")
    assert len(frame) == len(undisturbed["task_placements"])
    assert {"day", "batch", "group", "generation", "task", "role", "process_id"} <= set(frame.columns)


def test_arrow_batches_may_end_in_the_midst_of_a_group():
    whole = [(bucket, list(records.offset)) for bucket, records in by_route(as_spark_does(RECORDS, 10_000))]
    assert [(bucket, list(records.offset)) for bucket, records in by_route(as_spark_does(RECORDS, 3))] == whole
    assert len(whole) > 5


def test_tables_without_a_checkpoint_are_refused_before_they_double(tmp_path):
    layout = Layout(tmp_path)
    run(layout, BATCHES[:1])
    layout.checkpoint.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"_checkpoint was deleted.*new folder"):
        layout.check()


def test_two_runs_cannot_work_on_one_folder(tmp_path):
    with held(Layout(tmp_path)), pytest.raises(StateDirectoryLocked, match="another run"), held(Layout(tmp_path)):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--out .*cannot be written to"), held(Layout(tmp_path / "file" / "out")):
        pass
