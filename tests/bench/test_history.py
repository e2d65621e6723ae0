"""The measurement of the history: it finds a row that is missing, doubled or changed, and names table and group."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from bench.history.__main__ import FLEET, KINDS_THAT_FIT, QUICK, RUNS, Outcome, parse
from bench.history.rows import RowSums, derive_all, sums_of_folder
from kstreams_assign.history.generate import Fleet, write_fleet
from kstreams_assign.history.layout import Layout
from tests.history.play import Raw, run

SMALL = replace(QUICK, groups=4, members=3, generations=4)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder, SMALL)
    return folder


def records(fleet):
    return [Raw(*row.values()) for path in sorted(fleet.iterdir()) for row in pq.read_table(path).to_pylist()]


def test_tables_of_all_records_have_the_rows_of_the_derivation_alone(fleet, tmp_path):
    layout, derived = Layout(tmp_path), derive_all(fleet)
    listed = records(fleet)
    run(layout, [listed[: len(listed) // 2], listed[len(listed) // 2 :]])
    assert sums_of_folder(layout).differing(derived.sums) == []
    assert derived.sums.rows > 100
    assert min(derived.decoding_s, derived.deriving_s) > 0


def test_tables_without_the_last_record_of_a_group_differ_there(fleet, tmp_path):
    listed = records(fleet)
    last = max(listed, key=lambda record: (record.key.startswith(b"\0\2"), record.timestamp_ms))
    listed.remove(last)
    run(Layout(tmp_path), [listed])
    differing = sums_of_folder(Layout(tmp_path)).differing(derive_all(fleet).sums)
    assert ("counts", "") in differing
    assert {table for table, _ in differing} >= {"rebalances", "members"}
    assert len({group for _, group in differing if group}) == 1


ROWS = [{"group": "a", "n": 1}, {"group": "b", "n": 2}]


@pytest.mark.parametrize(
    "rows", [ROWS[:1], [*ROWS, ROWS[1]], [ROWS[0], {"group": "b", "n": 3}]], ids=["missing", "doubled", "changed"]
)
def test_a_row_that_differs_is_found_in_its_table_and_group(rows):
    expected, present = RowSums(), RowSums()
    expected.add("members", ROWS)
    present.add("members", reversed(rows))
    assert present.differing(expected) == expected.differing(present) == [("members", "b")]


def test_the_order_of_rows_makes_no_difference():
    expected, present = RowSums(), RowSums()
    expected.add("members", ROWS)
    present.add("members", ROWS[::-1])
    assert present.differing(expected) == []


def test_a_run_whose_rows_differ_is_reported_by_name(fleet, tmp_path, capsys):
    run(Layout(tmp_path), [records(fleet)[:-1]])
    outcome = Outcome(derive_all(fleet))
    outcome.add("2x1", {"generations": 10, "read_s": 1.0, "followed_s": 5.0}, tmp_path, 0)
    assert outcome.differing
    assert all(line.startswith("2x1: table ") for line in outcome.differing)
    assert "tables of groups differ" in capsys.readouterr().out
    assert [(result.ours, result.peer) for result in outcome.results] == [(2.0, 10.0)]


def test_the_full_fleet_is_what_is_measured_unless_less_is_asked_for():
    assert parse([]).fleet == FLEET == Fleet(1_000, 200, 10, kinds=KINDS_THAT_FIT)
    assert parse([]).runs == RUNS
    few = parse(["--groups", "10", "--runs", "2x1"])
    assert (few.fleet, few.runs) == (replace(FLEET, groups=10), ["2x1"])
    assert (parse([]).kills, parse([]).what_if) == (False, False)
    more = parse(["--kills", "--what-if"])
    assert (more.kills, more.what_if) == (True, True)
    assert parse(["--master", "spark://127.0.0.1:7077"]).master == "spark://127.0.0.1:7077"
