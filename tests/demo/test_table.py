"""The table and the lines that are shown while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kstreams_assign.demo.table import LEGEND, Lines, Scenery, news, probe_text, render
from tests.demo.events import assigned, decision, exited, fleet_state_of, joining, single_worker, started, status

SCENERY = Scenery("orders flow", "w1: runs 0_0", 2_987.4, 41_000, 10_000)


def shown(fleet_state, scenery=SCENERY, width=140):
    console = Console(file=io.StringIO(), width=width)
    console.print(render(fleet_state, scenery))
    return console.file.getvalue()


def line_of(text, worker):
    return next(line for line in text.splitlines() if f" {worker} " in line)


def test_the_table_shows_each_workers_tasks_by_role_with_their_lag():
    fleet_state = fleet_state_of(
        *single_worker(generation=12),
        started("w2"),
        status("w2", records_total=1234, t0_0=("standby", "tailing", 7), t0_3=("warmup", "tailing", 5_600)),
    )
    text = shown(fleet_state)
    assert " 0_0 " in line_of(text, "w1")
    assert "12" in line_of(text, "w1")
    assert "0_0\N{NO-BREAK SPACE}(7)" in line_of(text, "w2")
    assert "0_3\N{NO-BREAK SPACE}(5,600)" in line_of(text, "w2")
    assert "1,234" in line_of(text, "w2")


def test_the_table_fits_eighty_columns_and_divides_no_task_from_its_lag():
    tasks = {f"t0_{n}": ("active", "running", 0) for n in range(6)} | {
        f"t1_{n}": ("standby", "tailing", 123_456) for n in range(6)
    }
    text = shown(fleet_state_of(started("w1"), status("w1", records_total=12_345_678, **tasks)), width=80)
    assert max(map(len, text.splitlines())) == 80
    assert all(f"1_{n}\N{NO-BREAK SPACE}(123,456)" in text for n in range(6))
    assert "12,345,678" in text
    assert "…" not in text, "no column is cut"


def test_a_lag_that_is_not_known_is_not_shown_as_none_left():
    fleet_state = fleet_state_of(started("w1"), status("w1", t0_3=("warmup", "tailing", None)))
    assert "0_3\N{NO-BREAK SPACE}(?)" in shown(fleet_state)


def test_an_active_task_that_is_still_restored_is_marked():
    fleet_state = fleet_state_of(started("w1"), status("w1", t0_1=("active", "restoring", 900)))
    assert "0_1\N{NO-BREAK SPACE}(900)…" in shown(fleet_state)


def test_the_table_shows_the_rate_the_next_probe_what_happens_and_what_happened():
    text = shown(fleet_state_of(*single_worker(next_probe_ms=52_000)))
    assert "2,987 orders/s, 41,000 in; next probing rebalance in 42 s" in text
    assert "orders flow" in text
    assert "w1: runs 0_0" in text


@pytest.mark.parametrize(
    ("due_ms", "balanced", "text"),
    [
        (None, True, "the group is balanced, no probing rebalance is due"),
        (None, False, "no probing rebalance is due"),
        (15_000, False, "next probing rebalance in 5 s"),
        (9_000, False, "next probing rebalance in 0 s"),
    ],
)
def test_a_probe_is_shown_in_seconds_or_as_none(due_ms, balanced, text):
    assert probe_text(due_ms, 10_000, balanced=balanced) == text


def test_the_legend_explains_the_words_of_decisions_and_fits_eighty_columns():
    event = decision("w1", adopted=["0_0"], withheld=["0_1"])
    words = [word for word in ("adopted", "withheld") if word in news(event)]
    assert all(f"{word}: " in LEGEND for word in [*words, "follow-up"])
    assert len(words) == 2
    assert max(map(len, LEGEND.splitlines())) <= 80


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (exited("w1"), "w1: was killed"),
        (exited("w1", status=0), "w1: ended with status 0"),
        (joining("w1", reason="first join"), "w1: joins: first join"),
        (assigned("w1", 4, active=["0_1"], warmup=["0_2"]), "w1: generation 4: active 0_1, warm-up 0_2"),
        (assigned("w1", 4), "w1: generation 4: no task"),
        (
            decision("w1", members=3, changed={"0_1": ["a", "b"]}, withheld=["0_1"], next_probe_ms=1),
            "w1: leads: decision for 3 members; 1 owner change; 0_1 withheld; a probing rebalance follows",
        ),
        (status("w1"), None),
    ],
)
def test_an_event_is_shown_as_a_line(event, text):
    assert news(event) == text


def test_lines_are_wrapped_at_eighty_columns(capsys):
    with Lines() as lines:
        lines.news("w1: " + "long words " * 20)
    shown_lines = capsys.readouterr().err.splitlines()
    assert len(shown_lines) > 2
    assert max(map(len, shown_lines)) <= 80


def test_lines_say_each_scene_once(capsys):
    with Lines() as lines:
        lines.update(fleet_state_of(), SCENERY)
        lines.update(fleet_state_of(), SCENERY)
        lines.news("w1: was killed")
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split("s  ", 1)[1] for line in said.err.splitlines()] == [
        "orders flow (41,000 orders in; no probing rebalance is due)",
        "  w1: was killed",
    ]
