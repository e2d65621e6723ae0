"""A coordinator may move to a broker whose clock is behind: ``history ask`` then goes by the order of the topic."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.history.ask.answer import TABLES, Asked, answer_from
from kstreams_assign.history.ask.questions import QUESTIONS
from kstreams_assign.history.tables import COLUMNS
from tests.history.report_data import NOON_MS
from tests.history.test_ask import ALL_DAYS, as_tables


def asked(name, rows):
    found = {table: [dict.fromkeys(COLUMNS[table]) | row for row in rows.get(table, [])] for table in TABLES}
    (answer,) = answer_from(as_tables(found), Asked(Path(), QUESTIONS[name], days=ALL_DAYS), [QUESTIONS[name]])
    return answer.rows


def place(generation, seconds):
    return {
        "group": "orders",
        "generation": generation,
        "offsets_partition": 0,
        "offsets_offset": generation,
        "time_ms": NOON_MS + seconds * 1_000,
    }


def test_a_follow_up_counts_for_the_rebalance_before_it_in_the_topic():
    rebalances = [
        {**place(1, 0), "cause": "join"},
        {**place(2, 60), "cause": "leave"},
        {**place(3, 30), "cause": "follow_up"},
    ]
    movements = [{**place(3, 30), "task": "0_0", "planned": True, "warm": True, "gap_ms": 5_000}]
    (answer,) = asked("costly-groups", {"rebalances": rebalances, "movements": movements})
    assert (answer["main_cause"], answer["main_cause_s"]) == ("leave", 5.0)


def test_a_process_came_back_since_the_generation_before_it_in_the_topic():
    """Both members of process a are others in the second generation; the third changes a thread of b alone."""
    changes = [("first", "a1 b1"), ("replace", "a2 b1"), ("leave", "a2")]
    seconds = [0, 60, 30]
    rebalances = [
        {**place(n, at), "cause": cause, "joined": [], "gone": [], "processes": 2}
        for n, (at, (cause, _)) in enumerate(zip(seconds, changes, strict=True), 1)
    ]
    members = [
        {**place(n, at), "member_id": member, "process_id": member[0]}
        for n, (at, (_, listed)) in enumerate(zip(seconds, changes, strict=True), 1)
        for member in listed.split()
    ]
    (answer,) = asked("deployments", {"rebalances": rebalances, "members": members})
    assert (answer["changed"], answer["lasted_s"]) == (1, 30.0)
