"""What people see while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kstreams_assign.demo.table import Lines, Scenery, news, probe_text, render
from tests.demo.events import assigned, board_of, decision, exited, joining, one_worker, started, status

SCENERY = Scenery("orders flow", "w1: runs 0_0", 2_987.4, 41_000, 10_000)


def shown(board, scenery=SCENERY):
    console = Console(file=io.StringIO(), width=140)
    console.print(render(board, scenery))
    return console.file.getvalue()


def line_of(text, worker):
    return next(line for line in text.splitlines() if f" {worker} " in line)


def test_the_table_shows_each_workers_tasks_by_role_with_their_lag():
    board = board_of(
        *one_worker(generation=12),
        started("w2"),
        status("w2", records_total=1234, t0_0=("standby", "tailing", 7), t0_3=("warmup", "tailing", 5_600)),
    )
    text = shown(board)
    assert "0_0 (0)" in line_of(text, "w1")
    assert "12" in line_of(text, "w1")
    assert "0_0 (7)" in line_of(text, "w2")
    assert "0_3 (5,600)" in line_of(text, "w2")
    assert "1,234" in line_of(text, "w2")


def test_a_lag_that_nobody_knows_is_not_shown_as_none_left():
    board = board_of(started("w1"), status("w1", t0_3=("warmup", "tailing", None)))
    assert "0_3 (?)" in shown(board)


def test_an_active_task_that_is_still_restored_is_marked():
    board = board_of(started("w1"), status("w1", t0_1=("active", "restoring", 900)))
    assert "0_1 (900)…" in shown(board)


def test_the_table_shows_the_rate_the_next_probe_what_happens_and_what_happened():
    text = shown(board_of(*one_worker(next_probe_ms=52_000)))
    assert "2,987 orders/s, 41,000 in; next probe: in 42 s" in text
    assert "orders flow" in text
    assert "w1: runs 0_0" in text


@pytest.mark.parametrize(("due_ms", "text"), [(None, "none, balanced"), (15_000, "in 5 s"), (9_000, "in 0 s")])
def test_a_probe_is_told_in_seconds_or_as_none(due_ms, text):
    assert probe_text(due_ms, 10_000) == text


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (exited("w1"), "w1: was killed"),
        (exited("w1", status=0), "w1: ended with status 0"),
        (joining("w1", reason="first join"), "w1: joins: first join"),
        (assigned("w1", 4, active=["0_1"], warmup=["0_2"]), "w1: generation 4: active 0_1, warmup 0_2"),
        (assigned("w1", 4), "w1: generation 4: nothing"),
        (
            decision("w1", members=3, changed={"0_1": ["a", "b"]}, withheld=["0_1"], next_probe_ms=1),
            "w1: leads a round of 3 members by high_availability; 1 owner changes; waits for 0_1 to be let go; will probe",
        ),
        (status("w1"), None),
    ],
)
def test_news_are_told_in_a_line(event, text):
    assert news(event) == text


def test_lines_say_each_scene_once(capsys):
    with Lines() as lines:
        lines.update(board_of(), SCENERY)
        lines.update(board_of(), SCENERY)
        lines.news("w1: was killed")
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split("s  ", 1)[1] for line in said.err.splitlines()] == [
        "orders flow (41,000 orders in; next probe: none, balanced)",
        "  w1: was killed",
    ]
