"""The sweep: what the number of warm-ups and the probing interval change, the table, the picture, and Spark."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli
from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.page.sweep import PANELS, picture
from kstreams_assign.sim.tables import sweep as module
from kstreams_assign.sim.tables.compare import WIDTH
from kstreams_assign.sim.tables.sweep import EARLY, GROUP, Point, cells, points, sweep, table

FEW = [Point("least_movement", warmups, interval_s, 1) for warmups in (4, 32) for interval_s in (EARLY, 60)]


@pytest.fixture(scope="module")
def results():
    return sweep(FEW)


def test_every_combination_is_asked_for_once():
    asked = points((1, 2), (EARLY, 60, 600), (1, 2, 3))
    assert len(set(asked)) == len(asked) == 2 * 2 * 3 * 3


def test_more_warmups_come_to_rest_sooner_and_early_probing_even_sooner(results):
    rest = {result.point[1:3]: result.rest_s for result in results}
    assert rest[32, 60] < rest[4, 60]
    assert rest[4, EARLY] < rest[4, 60] / 1.5


def test_more_warmups_need_fewer_rebalances_and_read_as_fast_as_new_processes_can(results):
    few, many = (next(result for result in results if result.point[1:3] == (warmups, 60)) for warmups in (4, 32))
    assert many.rebalances < few.rebalances
    assert few.read_per_s <= many.read_per_s == 4 * GROUP.restored_per_s  # all four read as fast as they can


def test_results_are_printed_as_a_table_and_drawn(results):
    lines = list(table(cells(results)))
    assert lines[-1].startswith("32 warm-ups")
    assert "early" in lines[4]
    assert max(map(len, lines)) <= WIDTH
    drawn = ET.fromstring(picture(cells(results), "least_movement"))
    lines = [result for result in drawn.iter() if result.tag.endswith("polyline")]
    assert len(lines) == len(PANELS) * 2
    assert all(len(line.attrib["points"].split()) == 2 for line in lines)


def test_the_command_spreads_simulations_on_spark(monkeypatch, results, tmp_path):
    asked = []

    def spread(work, items, master):
        asked.append((work, list(items), master))
        return results

    monkeypatch.setattr(cli, "_spread", spread)
    svg = tmp_path / "sweep.svg"
    done = CliRunner().invoke(cli.app, ["simulate", "sweep", "--spark", "local[2]", "--json", "--svg", str(svg)])
    assert done.exit_code == 0, done.output
    assert asked == [(module.play_point, points(), "local[2]")]
    assert [cell["warmups"] for cell in json.loads(done.stdout)] == [4, 4, 32, 32]
    assert svg.read_text().startswith("<svg")


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_played(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "_spread", lambda *_: pytest.fail("played"))
    done = CliRunner().invoke(cli.app, ["simulate", "sweep", "--spark", "local[2]", "--svg", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(f"--svg {tmp_path}: is a folder")


def test_seeds_are_spread_as_well(monkeypatch):
    monkeypatch.setattr(cli, "_spread", lambda work, items, master: [work(item) for item in items] if master else [])
    in_process = CliRunner().invoke(cli.app, ["simulate", "--seed", "5", "--count", "2", "--json"])
    there = CliRunner().invoke(cli.app, ["simulate", "--seed", "5", "--count", "2", "--json", "--spark", "local[2]"])
    assert json.loads(in_process.stdout)["rebalances"] == json.loads(there.stdout)["rebalances"] > 0
