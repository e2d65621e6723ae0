"""The tables as programs find them that know Delta Lake and nothing of us."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from kstreams_assign.history.compaction import compact
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.writing import HistoryWriter
from tests.history.play import cut, fleet, rows, run

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "history.md").read_text(encoding="utf-8")

ORDER_OF_PLACES = "offsets_partition, offsets_offset"


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """Of four batches, three are in files that were merged."""
    made = Layout(tmp_path_factory.mktemp("tables"))
    run(made, cut(fleet(), 4)[:3])
    compact(HistoryWriter(made), "2999-01-01")
    run(made, cut(fleet(), 4))
    return made


@pytest.fixture(scope="module")
def duck():
    """DuckDB with its reader of Delta Lake, which is in a package of its own."""
    extension = files("duckdb_extension_delta") / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        yield connection


def test_pandas_has_every_row_with_its_day(layout):
    frame = DeltaTable(str(layout.table("task_placements"))).to_pandas()
    assert len(frame) == len(rows(layout)["task_placements"])
    assert {"day", "group", "generation", "task", "role", "process_id"} <= set(frame.columns)


@pytest.mark.parametrize("name", ["rebalances", "members", "movements", "quarantine", "counts", "end_offsets"])
def test_duckdb_opens_a_table_where_it_is(layout, duck, name):
    found = duck.execute("select count(*) from delta_scan(?)", [str(layout.table(name))]).fetchone()
    assert found == (len(rows(layout)[name]),)


def test_duckdb_reads_maps_and_lists_and_joins_tables(layout, duck):
    tables = {name: f"delta_scan('{layout.table(name)}')" for name in ("rebalances", "members")}
    answers = duck.sql(
        f"""select r.members, count(*), bool_and(map_contains(m.assignors, 'least_movement') or not m.ours)
        from {tables["rebalances"]} r join {tables["members"]} m using ("group", {ORDER_OF_PLACES})
        where r.state = 'stable' group by r."group", {ORDER_OF_PLACES}, r.members"""
    ).fetchall()
    assert len(answers) > 10
    assert all(members == counted and known for members, counted, known in answers)


def test_duckdb_looks_back(layout, duck):
    place = str(layout.table("counts"))
    older = duck.execute("select count(*) from delta_scan(?, version = 1)", [place]).fetchone()
    now = duck.execute("select count(*) from delta_scan(?)", [place]).fetchone()
    assert 0 < older[0] < now[0]


def example(language):
    (text,) = re.findall(rf"```{language}\n(.+?)```", PAGE, re.DOTALL)
    return text


@pytest.fixture
def beside_the_tables(layout, tmp_path, monkeypatch):
    (tmp_path / "history").symlink_to(layout.root)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("beside_the_tables")
def test_the_example_for_pandas_runs(capsys):
    exec(compile(example("python"), "history.md", "exec"), {})
    assert "mean" in capsys.readouterr().out


@pytest.mark.usefixtures("beside_the_tables")
def test_the_example_for_duckdb_runs(layout, duck):
    causes = duck.sql(example("sql")).fetchall()
    assert sum(rebalances for _, rebalances, _ in causes) == len(rows(layout)["rebalances"])
    assert {"first", "join"} <= {cause for cause, *_ in causes}
