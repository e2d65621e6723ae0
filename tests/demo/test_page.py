"""The page of a run: bars, scenes, moves and rebalances, from events and output."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import sync_playwright

from kstreams_assign.demo.check import Span, find_spans
from kstreams_assign.demo.page import SIDE, WIDTH, Scene, draw
from tests.demo.events import adopted, assigned, exited, fleet_state_of, joining, started, status
from tests.demo.test_check import row
from tests.demo.test_summary import summary_of
from tests.looks import cut_tables, faint_texts, in_each_look, page_width

ROWS = [row(0, 1_000, "w1"), row(1, 2_000, "w1"), row(2, 6_000, "w2"), row(3, 11_000, "w2")]
"""Task 0_0: w1 for a second, no worker for four, w2 for five."""


def fleet_state():
    return fleet_state_of(
        started("w1"),
        started("w2"),
        joining("w1", at=1_000),
        assigned("w1", 1, at=1_500),
        adopted("w1", 1, at=1_600),
        status("w2", at=1_000, t0_0=("warmup", "restoring", 9)),
        status("w2", at=3_000, t0_0=("standby", "running", 0)),
        status("w2", at=5_000, t0_0=("standby", "running", 0)),
        status("w2", at=6_000, t0_0=("active", "running", 0)),
        status("w1", at=6_100, t0_0=("leaving", "closing", None)),
        exited("w1", at=7_000),
    )


def page():
    return draw(summary_of(ROWS), fleet_state(), ROWS, [Scene(1_000, "all <begins>"), Scene(6_000, "w2 goes on")])


def bars(html):
    """Class, left edge and width in seconds of the eleven that the picture shows, and what the bar says."""
    rects = re.findall(r'<rect class="([^"]+)" x="([\d.]+)" y="\d+" width="([\d.]+)" height="\d+"><title>([^<]+)', html)
    second = (WIDTH - SIDE) / 10
    return {
        text: (kind, round((float(x) - SIDE) / second), round(float(width) / second)) for kind, x, width, text in rects
    }


def test_bars_stand_where_tasks_were_worked_on_and_red_where_they_were_not():
    assert bars(page()) == {
        "w1 processes 0_0, 0.0 to 1.0 s": ("c0", 0, 1),
        "no worker processes 0_0: 4,000 ms, 1.0 to 5.0 s": ("gap", 1, 4),
        "w1 closes 0_0, 5.1 to 5.1 s": ("c0 leaving", 5, 0),
        "w2 processes 0_0, 5.0 to 10.0 s": ("c1", 5, 5),
        "w2 keeps a warm-up of 0_0, 0.0 to 0.0 s": ("c1 warmup", 0, 0),
        "w2 keeps a standby of 0_0, 2.0 to 4.0 s": ("c1 standby", 2, 2),
    }


def test_scenes_moves_and_rebalances_are_shown_and_no_name_is_markup():
    html = page()
    assert "<li>all &lt;begins&gt; (0.0 s)</li><li>w2 goes on (5.0 s)</li>" in html
    assert cells(html)[-2:] == [["0_0", "w1", "w2", "no", "rebalance", "4,000"], ["1", "0.0", "600", ""]]


def cells(html):
    """The cells of each row of the tables."""
    rows = re.findall(r"<tr>(<td.*?)</tr>", html)
    return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]


@pytest.fixture
def opened(chromium, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page()
        shown.goto(file.as_uri())
        yield shown
        browser.close()


def test_it_can_be_read_at_each_width_on_light_and_dark_paper(opened):
    for width in in_each_look(opened):
        assert page_width(opened) == width
        assert [table for table in cut_tables(opened) if not table.startswith("Timeline")] == []
        assert faint_texts(opened) == []


def test_numbers_are_aligned_to_the_right(opened):
    sides = opened.locator("td.number").evaluate_all("(cells) => cells.map((cell) => getComputedStyle(cell).textAlign)")
    assert set(sides) == {"right"}
    assert len(sides) > 10


def test_each_term_of_the_facts_is_explained(opened):
    terms = opened.locator("dl.terms dt").all_text_contents()
    assert {"gap", "warm", "rebalance", "round", "owner change", "adopted"} <= set(terms)


def test_a_replica_that_comes_back_is_a_new_line():
    fleet_state = fleet_state_of(
        started("w1"),
        status("w1", at=1, t0_0=("standby", "running", 0)),
        status("w1", at=2),
        status("w1", at=5, t0_0=("standby", "running", 0)),
    )
    assert [(copy.from_ms, copy.to_ms) for copy in fleet_state.copies] == [(1, 1), (5, 5)]


def test_spans_are_in_the_order_of_tasks_and_times():
    rows = [*ROWS, row(0, 500, "w2", partition=1), row(4, 12_000, "w1")]
    assert find_spans(rows) == [
        Span("0_0", "w1", 1_000, 2_000),
        Span("0_0", "w2", 6_000, 11_000),
        Span("0_0", "w1", 12_000, 12_000),
        Span("0_1", "w2", 500, 500),
    ]
