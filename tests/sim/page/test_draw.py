"""The page of the policies: its content, and how a browser shows it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from kstreams_assign import cli
from kstreams_assign.model import TaskId
from kstreams_assign.sim.page.draw import draw, write
from kstreams_assign.sim.page.timeline import THINNEST, WIDTH, timeline
from kstreams_assign.sim.policies import FIRST
from kstreams_assign.sim.tables import show
from kstreams_assign.sim.tables.compare import compare
from kstreams_assign.sim.tables.ledger import RUNS, Bar
from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.situations import SITUATIONS
from tests.looks import cut_tables, faint_texts, in_each_look, page_width

TWO = (FIRST[0], FIRST[-1])


@pytest.fixture(scope="module")
def columns():
    return list(compare(TWO, SITUATIONS[2:4]))


@pytest.fixture(scope="module")
def page_file(columns, tmp_path_factory):
    html = tmp_path_factory.mktemp("policies") / "page.html"
    write(html, TWO, columns)
    return html


def pauses(svg):
    """(x, width) of what is red."""
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="7" class="idle"', svg)
    return [(float(x), float(width)) for x, width in bars]


def test_a_pause_is_red_and_never_too_thin_to_be_seen():
    task = TaskId(0, 0)
    bars = (Bar(task, RUNS, 0, 0, 50_000), Bar(task, RUNS, 0, 50_100, 60_000), Bar(task, RUNS, 1, 80_000, 100_000))
    svg = timeline(Measured("one", "bounce", 0, 1, 20.1, 0, 1, 100.0, bars=bars), 1, 100_000)
    assert pauses(svg) == [(0.5 * WIDTH, THINNEST), (0.6 * WIDTH, 0.2 * WIDTH)]


def test_the_page_asks_for_nothing_and_runs_nothing(page_file):
    text = page_file.read_text()
    assert "script-src 'none'" in text.replace("&#x27;", "'")
    assert re.findall(r"(?:src|href)=\"(?!data:)", text) == []


def test_each_policy_has_a_timeline_and_a_line_in_every_plot(columns):
    text = draw(TWO, columns)
    assert text.count('class="timeline"') == text.count('class="down"') == len(TWO) * len(columns)


def test_a_browser_shows_the_pauses_of_each_policy(page_file, chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints = []
        page.on("console", lambda said: complaints.append(said.text))
        page.goto(page_file.as_uri())
        red = (
            "(svg) => [...svg.querySelectorAll('.idle')].filter((one) => one.getBoundingClientRect().width >= 2).length"
        )
        eager, ours = (page.locator(".timeline").nth(at).evaluate(red) for at in (0, 1))
        assert eager == 9 + 3  # tasks that stay are paused as well as those that move
        assert ours <= 3
        for width in in_each_look(page):
            assert page_width(page) == width
            assert width < 1280 or cut_tables(page) == []
            assert faint_texts(page) == []
        browser.close()
    assert complaints == []


def test_on_dark_paper_no_cell_of_the_summary_glares(page_file, chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="dark")
        page.goto(page_file.as_uri())
        shades = page.locator(".words td").evaluate_all(
            "(cells) => cells.map((cell) => getComputedStyle(cell).backgroundColor.match(/[0-9]+/g).slice(0, "
            "3).map(Number))"
        )
        browser.close()
    assert shades
    assert max(max(shade) for shade in shades) <= 0x5A


def test_the_command_writes_it(monkeypatch, columns, tmp_path):
    monkeypatch.setattr("kstreams_assign.sim.policies.FIRST", TWO)
    monkeypatch.setattr(show, "compare", lambda _policies: columns)
    html = tmp_path / "deep" / "page.html"
    done = CliRunner().invoke(cli.app, ["simulate", "policies", "--json", "--html", str(html)])
    assert (done.exit_code, done.stderr) == (0, f"wrote {html}\n")
    assert html.stat().st_size > 10_000


@pytest.mark.parametrize("place", ["", "file/page.html"])
def test_a_page_that_cannot_be_written_is_a_wrong_call_before_anything_is_played(monkeypatch, tmp_path, capsys, place):
    (tmp_path / "file").touch()
    monkeypatch.setattr(show, "compare", lambda _policies: pytest.fail("played"))
    html = str(tmp_path / place)
    monkeypatch.setattr("sys.argv", ["kstreams-assign", "simulate", "policies", "--json", "--html", html])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "name a file that can be written" in capsys.readouterr().err
